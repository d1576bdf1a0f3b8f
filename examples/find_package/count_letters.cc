// Trains a tiny GPT-2 on tokens that the program makes itself: the letters of the alphabet, over and over.
#include <lockstep/config.h>
#include <lockstep/data.h>
#include <lockstep/engine.h>
#include <lockstep/error.h>
#include <lockstep/launch.h>
#include <lockstep/models.h>
#include <lockstep/version.h>

#include <cstdio>

namespace {

class Alphabet final : public lockstep::TokenSource {
 public:
  int64_t size() const override { return 26 * 1000; }
  void read(int64_t offset, std::span<int64_t> into) const override {
    for (int64_t& token : into) token = offset++ % vocabulary();
  }
  int64_t vocabulary() const override { return 26; }
  std::string name() const override { return "the alphabet"; }
};

}  // namespace

int main() {
  try {
    const auto world = lockstep::launch::connect();
    const auto config = lockstep::Config::from_text(
        R"({"train_batch_size": 8, "optimizer": {"type": "AdamW", "params": {"lr": 0.01}}})", "built-in config",
        {.world_size = world.size});
    const auto model =
        lockstep::models::gpt2({.layers = 1, .width = 32, .heads = 2, .positions = 16, .vocabulary = 26});
    auto engine = lockstep::initialize(model, config, world);
    const lockstep::Loader loader(std::make_shared<Alphabet>(), {.sequence_length = 16,
                                                                 .micro_batch = config.train_micro_batch_size_per_gpu,
                                                                 .rank = world.rank,
                                                                 .world = world.size});
    std::printf("lockstep %s\n", lockstep::version());
    while (engine.global_steps() < 30) {
      const auto report = engine.train_batch(loader);
      if (report.step % 10 == 0) std::printf("step %d  loss %.3f\n", static_cast<int>(report.step), report.loss);
    }
  } catch (const lockstep::Error& error) {
    std::fprintf(stderr, "count_letters: %s\n", error.what());
    return 1;
  }
}
