#include <cstdio>
#include <cstdlib>

#include "program.h"
#include "tensor/cpu_allocator.h"

int main(int argc, char** argv) {
  lockstep::tensor::install_cpu_allocator();
  const int exit_code = lockstep::cli::run_program({argv + 1, argv + argc});
  // Without static destructors: after a lost peer a thread may still wait for a store that never answers.
  std::fflush(nullptr);
  std::_Exit(exit_code);
}
