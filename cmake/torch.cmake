# LibTorch as an imported target, lockstep_torch: headers, libtorch_cpu and libc10.
# find_package(Torch) is not used: on a CUDA wheel it demands a CUDA toolkit.
if(LOCKSTEP_TORCH_DIR)
  set(torch_root "${LOCKSTEP_TORCH_DIR}")
else()
  set(torch_root "${CMAKE_SOURCE_DIR}/.deps/torch")
endif()
if(NOT EXISTS "${torch_root}/lib/libtorch_cpu.so")
  message(FATAL_ERROR "No LibTorch in ${torch_root}. Run tools/setup.sh, or set LOCKSTEP_TORCH_DIR.")
endif()

file(STRINGS "${torch_root}/include/torch/headeronly/version.h" torch_version_lines
     REGEX "#define TORCH_VERSION_(MAJOR|MINOR|PATCH) +[0-9]+")
string(REGEX MATCHALL "[0-9]+" torch_version_numbers "${torch_version_lines}")
list(JOIN torch_version_numbers "." LOCKSTEP_TORCH_VERSION)
if(LOCKSTEP_TORCH_VERSION VERSION_LESS 2.9)
  message(FATAL_ERROR "LibTorch ${LOCKSTEP_TORCH_VERSION} in ${torch_root} is too old: 2.9 or newer is needed.")
endif()

add_library(lockstep_torch INTERFACE)
target_include_directories(lockstep_torch SYSTEM INTERFACE
  "${torch_root}/include" "${torch_root}/include/torch/csrc/api/include")
target_compile_definitions(lockstep_torch INTERFACE USE_DISTRIBUTED USE_C10D_GLOO)
# Among LibTorch's headers lies a newer fmt without its library: its compiled half is built here, once.
add_library(lockstep_torch_fmt STATIC "${CMAKE_CURRENT_LIST_DIR}/torch_fmt.cc")
target_include_directories(lockstep_torch_fmt SYSTEM PRIVATE "${torch_root}/include")
target_link_libraries(lockstep_torch INTERFACE lockstep_torch_fmt)

# The CUDA wheel's libtorch_cpu needs two small NVIDIA libraries, unpacked beside it.
file(GLOB nvidia_lib_dirs "${torch_root}/../nvidia/*/lib")
set(torch_rpath "${torch_root}/lib" ${nvidia_lib_dirs})
set(CMAKE_BUILD_RPATH ${torch_rpath})
target_link_libraries(lockstep_torch INTERFACE "${torch_root}/lib/libtorch_cpu.so" "${torch_root}/lib/libc10.so")
foreach(dir IN LISTS nvidia_lib_dirs)
  target_link_options(lockstep_torch INTERFACE "-Wl,-rpath-link,${dir}")
endforeach()
