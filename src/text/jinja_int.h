// Integers of any size for templates: Python's ints.  Sign and magnitude, base 2^32,
// least significant limb first, no leading zero limbs; zero is not negative.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace ingot::jinja {

class BigInt {
 public:
  BigInt() = default;
  explicit BigInt(int64_t value);
  // Requires: digits of `base` only, after an optional sign.
  static BigInt parse(std::string_view digits, unsigned base = 10);
  static BigInt from_double(double value);  // towards zero; Requires: finite

  bool fits_int64() const;
  int64_t to_int64() const;  // Requires: fits_int64()
  double to_double() const;  // nearest, or infinity
  std::string to_string() const;
  size_t bytes() const { return limbs_.size() * 4; }
  bool is_zero() const { return limbs_.empty(); }
  bool is_negative() const { return negative_; }
  bool is_odd() const { return !limbs_.empty() && (limbs_[0] & 1u); }
  BigInt negated() const;

  friend BigInt operator+(const BigInt& a, const BigInt& b);
  friend BigInt operator-(const BigInt& a, const BigInt& b);
  friend BigInt operator*(const BigInt& a, const BigInt& b);
  friend int compare(const BigInt& a, const BigInt& b);  // -1, 0, 1
  // Python's // and %: the quotient is rounded down.  Requires: b is not zero.
  static void divide(const BigInt& a, const BigInt& b, BigInt& quotient, BigInt& rest);

 private:
  void trim();
  std::vector<uint32_t> limbs_;
  bool negative_ = false;
};

}  // namespace ingot::jinja
