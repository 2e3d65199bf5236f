#include "text/jinja_iterate.h"

#include <algorithm>

#include "text/jinja_ops.h"

namespace ingot::jinja {

Iterator::Iterator(Run& run, Value source) : run_(&run), source_(std::move(source)) {
  if (!is_iterable(source_) || source_.is(Kind::loop)) {
    run.fail("'{}' object is not iterable", type_name(source_));
  }
}

Iterator Iterator::unchecked(Run& run, Value source) {
  Iterator iterator;
  iterator.run_ = &run;
  iterator.source_ = std::move(source);
  return iterator;
}

bool Iterator::next(Value& item) {
  if (run_ == nullptr) return false;
  run_->step();
  switch (source_.kind()) {
    case Kind::list:
    case Kind::tuple:
      if (index_ >= items_of(source_).size()) return false;
      item = items_of(source_)[index_++];
      return true;
    case Kind::dict:
      if (index_ >= dict_of(source_).entries.size()) return false;
      item = dict_of(source_).entries[index_++].first;
      return true;
    case Kind::dict_view: {
      const auto& view = *static_cast<const DictView*>(source_.as_object());
      if (index_ >= dict_of(view.dict).entries.size()) return false;
      const auto& [key, value] = dict_of(view.dict).entries[index_++];
      item = view.what == ViewOf::keys     ? key
             : view.what == ViewOf::values ? value
                                           : make_tuple(*run_, {key, value});
      return true;
    }
    case Kind::range: {
      const auto& range = *static_cast<const Range*>(source_.as_object());
      if (index_ >= static_cast<size_t>(range.size())) return false;
      item = range_item(*run_, range, static_cast<int64_t>(index_++));
      return true;
    }
    case Kind::string: {
      const String& string = string_of(source_);
      if (index_ >= string.text.size()) return false;
      size_t end = index_ + 1;
      while (end < string.text.size() &&
             (static_cast<unsigned char>(string.text[end]) & 0xC0u) == 0x80u) {
        ++end;
      }
      MarkedText character;  // Python's iterator gives plain strings, of markup too
      character.append(std::string_view(string.text).substr(index_, end - index_),
                       spans_within(string.foreign, index_, end));
      item = make_marked_string(*run_, std::move(character));
      index_ = end;
      return true;
    }
    case Kind::generator:
      return generator_next(generator_of(source_), item);
    case Kind::undefined:
    case Kind::missing:  // an Iterator that was let go of
      return false;
    default:
      run_->fail("'{}' object is not iterable", type_name(source_));
  }
}

uint32_t depth_around(Run& run, const std::vector<Value>& values) {
  uint32_t depth = 0;
  for (const Value& value : values) depth = std::max(depth, depth_of(value) + 1);
  if (depth > static_cast<uint32_t>(run.limits.max_value_depth)) {
    run.fail("values are nested more than {} deep", run.limits.max_value_depth);
  }
  return depth;
}

Value make_generator(Run& run, const Value& source, const Arguments* inside) {
  std::vector<Value> held{source};
  if (inside != nullptr) {
    held.insert(held.end(), inside->positional.begin(), inside->positional.end());
    for (const auto& [key, value] : inside->keyword) held.push_back(value);
  }
  const uint32_t depth = depth_around(run, held);
  auto* generator = new Generator;
  generator->depth = depth;
  generator->source = Iterator::unchecked(run, source);
  charge_object(run, *generator, Kind::generator, sizeof(Generator));
  return Value::object(Kind::generator, generator);
}

Generator& generator_of(const Value& value) {
  return *static_cast<Generator*>(value.as_object());
}

bool generator_next(Generator& generator, Value& item) {
  generator.run->check_stack();
  while (generator.source.next(item)) {
    if (generator.transform == nullptr) return true;
    if (generator.transform(*generator.interpreter, generator, item)) return true;
  }
  return false;
}

std::vector<Value> collect(Run& run, const Value& value) {
  Iterator iterator(run, value);
  std::vector<Value> items;
  for (Value item; iterator.next(item);) {
    if (items.size() % 1024 == 0) run.check_room(items.size() * 2 * sizeof(Value));
    items.push_back(std::move(item));
  }
  return items;
}

std::vector<Value> collect_reversed(Run& run, const Value& value) {
  if (value.is(Kind::generator)) run.fail("'generator' object is not reversible");
  std::vector<Value> items = collect(run, value);
  std::reverse(items.begin(), items.end());
  return items;
}

}  // namespace ingot::jinja
