// The unit that carries the precompiled header of tests/CMakeLists.txt.
