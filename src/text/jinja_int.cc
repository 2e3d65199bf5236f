#include "text/jinja_int.h"

#include <algorithm>
#include <cmath>

#include "base/check.h"

namespace ingot::jinja {
namespace {

using Limbs = std::vector<uint32_t>;

int compare_limbs(const Limbs& a, const Limbs& b) {
  if (a.size() != b.size()) return a.size() < b.size() ? -1 : 1;
  for (size_t i = a.size(); i-- > 0;) {
    if (a[i] != b[i]) return a[i] < b[i] ? -1 : 1;
  }
  return 0;
}

Limbs add_limbs(const Limbs& a, const Limbs& b) {
  Limbs sum(std::max(a.size(), b.size()) + 1);
  uint64_t carry = 0;
  for (size_t i = 0; i < sum.size(); ++i) {
    carry += (i < a.size() ? a[i] : 0u);
    carry += (i < b.size() ? b[i] : 0u);
    sum[i] = static_cast<uint32_t>(carry);
    carry >>= 32;
  }
  return sum;
}

// Requires: a >= b.
Limbs subtract_limbs(const Limbs& a, const Limbs& b) {
  Limbs difference(a.size());
  int64_t borrow = 0;
  for (size_t i = 0; i < a.size(); ++i) {
    int64_t d = int64_t{a[i]} - (i < b.size() ? int64_t{b[i]} : 0) + borrow;
    borrow = d < 0 ? -1 : 0;
    difference[i] = static_cast<uint32_t>(d);
  }
  return difference;
}

uint32_t divide_by_small(Limbs& limbs, uint32_t divisor) {
  uint64_t rest = 0;
  for (size_t i = limbs.size(); i-- > 0;) {
    rest = (rest << 32) | limbs[i];
    limbs[i] = static_cast<uint32_t>(rest / divisor);
    rest %= divisor;
  }
  while (!limbs.empty() && limbs.back() == 0) limbs.pop_back();
  return static_cast<uint32_t>(rest);
}

void multiply_add(Limbs& limbs, uint32_t factor, uint32_t addend) {
  uint64_t carry = addend;
  for (uint32_t& limb : limbs) {
    carry += uint64_t{limb} * factor;
    limb = static_cast<uint32_t>(carry);
    carry >>= 32;
  }
  if (carry != 0) limbs.push_back(static_cast<uint32_t>(carry));
}

// Schoolbook long division, a bit at a time: the numbers of templates are short.
void divide_limbs(const Limbs& a, const Limbs& b, Limbs& quotient, Limbs& rest) {
  quotient.assign(a.size(), 0);
  rest.clear();
  for (size_t bit = a.size() * 32; bit-- > 0;) {
    multiply_add(rest, 2, (a[bit / 32] >> (bit % 32)) & 1u);
    while (!rest.empty() && rest.back() == 0) rest.pop_back();
    if (compare_limbs(rest, b) < 0) continue;
    rest = subtract_limbs(rest, b);
    while (!rest.empty() && rest.back() == 0) rest.pop_back();
    quotient[bit / 32] |= 1u << (bit % 32);
  }
}

}  // namespace

BigInt::BigInt(int64_t value) : negative_(value < 0) {
  uint64_t magnitude =
      negative_ ? ~static_cast<uint64_t>(value) + 1 : static_cast<uint64_t>(value);
  for (; magnitude != 0; magnitude >>= 32) {
    limbs_.push_back(static_cast<uint32_t>(magnitude));
  }
}

BigInt BigInt::parse(std::string_view digits, unsigned base) {
  BigInt result;
  bool negative = false;
  for (char c : digits) {
    if (c == '-') negative = true;
    if (c == '-' || c == '+' || c == '_') continue;
    unsigned digit = c <= '9' ? unsigned(c - '0') : (unsigned(c) | 0x20u) - 'a' + 10;
    multiply_add(result.limbs_, base, digit);
  }
  result.negative_ = negative;
  result.trim();
  return result;
}

BigInt BigInt::from_double(double value) {
  CHECK(std::isfinite(value));
  int exponent = 0;
  double fraction = std::frexp(std::trunc(std::fabs(value)), &exponent);
  BigInt result(static_cast<int64_t>(std::ldexp(fraction, 53)));
  for (int shift = exponent - 53; shift > 0; --shift) multiply_add(result.limbs_, 2, 0);
  for (int shift = exponent - 53; shift < 0; ++shift) divide_by_small(result.limbs_, 2);
  result.negative_ = value < 0;
  result.trim();
  return result;
}

void BigInt::trim() {
  while (!limbs_.empty() && limbs_.back() == 0) limbs_.pop_back();
  if (limbs_.empty()) negative_ = false;
}

bool BigInt::fits_int64() const {
  if (limbs_.size() < 2) return true;
  if (limbs_.size() > 2) return false;
  uint64_t magnitude = (uint64_t{limbs_[1]} << 32) | limbs_[0];
  return magnitude <= (uint64_t{1} << 63) - (negative_ ? 0 : 1);
}

int64_t BigInt::to_int64() const {
  uint64_t magnitude = 0;
  for (size_t i = limbs_.size(); i-- > 0;) magnitude = (magnitude << 32) | limbs_[i];
  return static_cast<int64_t>(negative_ ? ~magnitude + 1 : magnitude);
}

double BigInt::to_double() const {
  // Through decimal text: strtod rounds to nearest, which summing limbs would not.
  return std::strtod(to_string().c_str(), nullptr);
}

std::string BigInt::to_string() const {
  if (limbs_.empty()) return "0";
  std::string text;
  Limbs rest = limbs_;
  while (!rest.empty()) {
    uint32_t part = divide_by_small(rest, 1'000'000'000u);
    for (int i = 0; i < 9 && (part != 0 || !rest.empty()); ++i, part /= 10) {
      text.push_back(static_cast<char>('0' + part % 10));
    }
  }
  if (negative_) text.push_back('-');
  std::reverse(text.begin(), text.end());
  return text;
}

BigInt BigInt::negated() const {
  BigInt result = *this;
  result.negative_ = !negative_ && !limbs_.empty();
  return result;
}

BigInt operator+(const BigInt& a, const BigInt& b) {
  BigInt result;
  if (a.negative_ == b.negative_) {
    result.limbs_ = add_limbs(a.limbs_, b.limbs_);
    result.negative_ = a.negative_;
  } else {
    bool a_larger = compare_limbs(a.limbs_, b.limbs_) >= 0;
    result.limbs_ = a_larger ? subtract_limbs(a.limbs_, b.limbs_)
                             : subtract_limbs(b.limbs_, a.limbs_);
    result.negative_ = a_larger ? a.negative_ : b.negative_;
  }
  result.trim();
  return result;
}

BigInt operator-(const BigInt& a, const BigInt& b) { return a + b.negated(); }

BigInt operator*(const BigInt& a, const BigInt& b) {
  BigInt result;
  result.limbs_.assign(a.limbs_.size() + b.limbs_.size(), 0);
  for (size_t i = 0; i < a.limbs_.size(); ++i) {
    uint64_t carry = 0;
    for (size_t j = 0; j < b.limbs_.size(); ++j) {
      carry += uint64_t{a.limbs_[i]} * b.limbs_[j] + result.limbs_[i + j];
      result.limbs_[i + j] = static_cast<uint32_t>(carry);
      carry >>= 32;
    }
    result.limbs_[i + b.limbs_.size()] = static_cast<uint32_t>(carry);
  }
  result.negative_ = a.negative_ != b.negative_;
  result.trim();
  return result;
}

int compare(const BigInt& a, const BigInt& b) {
  if (a.negative_ != b.negative_) return a.negative_ ? -1 : 1;
  int order = compare_limbs(a.limbs_, b.limbs_);
  return a.negative_ ? -order : order;
}

void BigInt::divide(const BigInt& a, const BigInt& b, BigInt& quotient, BigInt& rest) {
  CHECK(!b.is_zero());
  divide_limbs(a.limbs_, b.limbs_, quotient.limbs_, rest.limbs_);
  quotient.negative_ = a.negative_ != b.negative_;
  rest.negative_ = a.negative_;
  quotient.trim();
  rest.trim();
  if (!rest.is_zero() && a.negative_ != b.negative_) {
    quotient = quotient - BigInt(1);
    rest = rest + b;
  }
}

}  // namespace ingot::jinja
