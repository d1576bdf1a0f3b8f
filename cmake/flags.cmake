# One flag set for every target: a precompiled header is only used where the flags agree.
if(NOT CMAKE_BUILD_TYPE)
  set(CMAKE_BUILD_TYPE Release)
endif()
set(CMAKE_CXX_FLAGS_RELEASE "-O2 -DNDEBUG")
set(CMAKE_CXX_FLAGS_RELWITHDEBINFO "-O1 -g1")

add_compile_options(-fPIC -Wall -Wextra -Werror -Winvalid-pch -Werror=invalid-pch -fvisibility=hidden)
if(CMAKE_CXX_COMPILER_ID STREQUAL "Clang")
  add_compile_options(-Wthread-safety -Wno-unused-command-line-argument)
else()
  # GCC reports these inside LibTorch's and fmt's headers, where they do not hold.
  add_compile_options(-Wno-dangling-pointer -Wno-array-bounds -Wno-stringop-overflow -Wno-maybe-uninitialized)
endif()

find_program(LOCKSTEP_LLD ld.lld)
if(LOCKSTEP_LLD)
  add_link_options(-fuse-ld=lld)
endif()

if(LOCKSTEP_SANITIZE)
  add_compile_options(-fsanitize=${LOCKSTEP_SANITIZE} -fno-omit-frame-pointer)
  if(LOCKSTEP_SANITIZE MATCHES "undefined")
    add_compile_options(-fno-sanitize-recover=undefined -fno-sanitize=vptr)
  endif()
  add_link_options(-fsanitize=${LOCKSTEP_SANITIZE})
endif()
