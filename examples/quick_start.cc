// Trains a small GPT-2 on a text file, one byte a token:  quick_start ds_config.json TEXT
#include <cstdio>

#include "lockstep/config.h"
#include "lockstep/data.h"
#include "lockstep/engine.h"
#include "lockstep/launch.h"
#include "lockstep/models.h"

int main(int count, char** arguments) {
  if (count != 3) return std::puts("usage: quick_start ds_config.json TEXT"), 2;
  const auto world = lockstep::launch::connect();  // One rank, or as torchrun, mpirun or srun say.
  const auto config = lockstep::Config::from_file(arguments[1], {.world_size = world.size});
  const auto model = lockstep::models::gpt2({.layers = 2, .width = 64, .heads = 2, .positions = 64, .vocabulary = 256});
  auto engine = lockstep::initialize(model, config, world);
  const lockstep::Loader loader(lockstep::open_text_files({arguments[2]}),
                                {.sequence_length = 64,
                                 .micro_batch = config.train_micro_batch_size_per_gpu,
                                 .rank = world.rank,
                                 .world = world.size});
  while (engine.global_steps() < 20) {
    const auto report = engine.train_batch(loader);
    std::printf("step %2d  loss %.3f\n", static_cast<int>(report.step), report.loss);
  }
}
