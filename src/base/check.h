#pragma once

#include <sstream>
#include <string>

namespace lockstep::base {

/// Throws std::logic_error.  Only for our own bugs: no user input may reach it.
[[noreturn]] void check_failed(const char* file, int line, const char* condition, const std::string& detail);

template <class A, class B>
std::string both_sides(const A& a, const B& b) {
  std::ostringstream out;
  out << a << " against " << b;
  return out.str();
}

}  // namespace lockstep::base

#define LOCKSTEP_CHECK(condition)                                                         \
  do {                                                                                    \
    if (!(condition)) ::lockstep::base::check_failed(__FILE__, __LINE__, #condition, {}); \
  } while (false)

#define LOCKSTEP_CHECK_EQ(a, b)                                                             \
  do {                                                                                      \
    const auto& lockstep_a = (a);                                                           \
    const auto& lockstep_b = (b);                                                           \
    if (!(lockstep_a == lockstep_b))                                                        \
      ::lockstep::base::check_failed(__FILE__, __LINE__, #a " == " #b,                      \
                                     ::lockstep::base::both_sides(lockstep_a, lockstep_b)); \
  } while (false)
