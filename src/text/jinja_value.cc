#include "text/jinja_value.h"

#include <algorithm>

#include "base/check.h"
#include "base/error.h"
#include "base/utf8.h"
#include "text/jinja_iterate.h"
#include "text/jinja_ops.h"

namespace ingot::jinja {
namespace {

constexpr size_t kIndexFrom = 8;  // smaller dicts are searched in order

template <typename T>
T* new_object(Run& run, Kind kind, size_t payload_bytes) {
  // The room is checked before the allocation and charged after it.
  run.check_room(sizeof(T) + payload_bytes);
  T* object = new T;
  charge_object(run, *object, kind, sizeof(T) + payload_bytes);
  return object;
}

Value make_sequence(Run& run, Kind kind, std::vector<Value> items) {
  const uint32_t depth = depth_around(run, items);
  auto* sequence = new_object<Sequence>(run, kind, items.capacity() * sizeof(Value));
  sequence->items = std::move(items);
  sequence->depth = depth;
  return Value::object(kind, sequence);
}

}  // namespace

// ---- Run ----------------------------------------------------------------------------

Run::Run(const TemplateLimits& run_limits, std::string_view run_name)
    : limits(run_limits),
      name(run_name),
      stack_base_(static_cast<const char*>(__builtin_frame_address(0))) {}

Run::~Run() {
  // First empty them, while this list still holds each: no ring, no deep recursion.
  for (Value& v : namespaces_) {
    auto attributes = std::move(static_cast<Namespace*>(v.as_object())->attributes);
    attributes.clear();
  }
}

void Run::fail_text(const std::string& message) const {
  throw Error(fmt::format("{}: line {}: {}", name, line, message));
}

void Run::out_of_steps() const {
  fail("the template runs too long: more than {} steps", limits.max_steps);
}

void Run::charge(size_t bytes) {
  check_room(bytes);
  live_bytes_ += bytes;
}

void Run::check_room(size_t bytes) const {
  if (bytes <= limits.max_live_bytes && live_bytes_ <= limits.max_live_bytes - bytes) {
    return;
  }
  fail("the template needs more than {} bytes of memory", limits.max_live_bytes);
}

void Run::check_string(size_t bytes) const {
  if (bytes > limits.max_string_bytes) {
    fail("a string grows past {} bytes", limits.max_string_bytes);
  }
}

void Run::check_stack() const {
  auto here = static_cast<const char*>(__builtin_frame_address(0));
  auto used = static_cast<size_t>(here < stack_base_ ? stack_base_ - here : 0);
  if (used > limits.max_stack_bytes) fail("the template is nested too deeply");
}

// ---- Objects ------------------------------------------------------------------------

void charge_object(Run& run, Object& object, Kind kind, size_t bytes) {
  object.run = &run;
  object.kind = kind;
  object.charged_bytes = bytes;
  try {
    run.charge(bytes);
  } catch (...) {
    object.charged_bytes = 0;  // the destructor gives back what was taken
    destroy_object(&object);
    throw;
  }
}

void destroy_object(Object* object) {
  if (object->run != nullptr) object->run->discharge(object->charged_bytes);
  switch (object->kind) {
    case Kind::undefined:
    case Kind::string:
      delete static_cast<String*>(object);
      return;
    case Kind::big_integer:
      delete static_cast<BigInteger*>(object);
      return;
    case Kind::list:
    case Kind::tuple:
      delete static_cast<Sequence*>(object);
      return;
    case Kind::dict:
      delete static_cast<Dict*>(object);
      return;
    case Kind::dict_view:
      delete static_cast<DictView*>(object);
      return;
    case Kind::range:
      delete static_cast<Range*>(object);
      return;
    case Kind::name_space:
      delete static_cast<Namespace*>(object);
      return;
    default:
      destroy_eval_object(object);
  }
}

uint32_t depth_of(const Value& value) {
  bool counted = value.kind() >= Kind::list && !value.is(Kind::name_space);
  return counted ? value.as_object()->depth : 0;
}

bool Value::same_as(const Value& other) const {
  if (kind_ != other.kind_) return false;
  switch (kind_) {
    case Kind::missing:
    case Kind::none:
      return true;
    case Kind::boolean:
    case Kind::integer:
      return bits_.integer == other.bits_.integer;
    case Kind::floating:
      return false;  // CPython makes a new object for each result
    default:
      return bits_.object == other.bits_.object;
  }
}

int64_t Range::size() const {
  if (step > 0) return start < stop ? (stop - start - 1) / step + 1 : 0;
  return start > stop ? (start - stop - 1) / -step + 1 : 0;
}

const std::string& text_of(const Value& string) {
  CHECK(string.is(Kind::string) || string.is_undefined());
  const auto& s = *static_cast<const String*>(string.as_object());
  if (!s.foreign.empty()) s.run->read_foreign = true;
  return s.text;
}

size_t count_code_points(std::string_view text) {
  size_t n = 0;
  for (char c : text) n += (static_cast<unsigned char>(c) & 0xC0u) != 0x80u;
  return n;
}

size_t byte_offset(const String& string, size_t index) {
  if (string.is_ascii()) return index;
  size_t offset = 0;
  for (; index > 0; --index) {
    ++offset;
    while (offset < string.text.size() &&
           (static_cast<unsigned char>(string.text[offset]) & 0xC0u) == 0x80u) {
      ++offset;
    }
  }
  return offset;
}

Value make_string(Run& run, std::string text, bool markup) {
  run.check_string(text.size());
  run.copying(text.size());
  auto* string = new_object<String>(run, Kind::string, text.capacity());
  string->length = count_code_points(text);
  string->text = std::move(text);
  string->markup = markup;
  return Value::object(Kind::string, string);
}

Value make_marked_string(Run& run, MarkedText text, bool markup) {
  const size_t bytes = text.foreign.capacity() * sizeof(Span);
  Value value = make_string(run, std::move(text.text), markup);
  auto& string = *static_cast<String*>(value.as_object());
  run.charge(bytes);
  string.charged_bytes += bytes;
  string.foreign = std::move(text.foreign);
  string.foreign_known = true;
  return value;
}

Value make_foreign_string(Run& run, std::string text) {
  MarkedText all;
  all.append(text, true);
  return make_marked_string(run, std::move(all));
}

Value make_substring(Run& run, const String& string, size_t begin, size_t end) {
  return make_marked_string(
      run,
      {string.text.substr(begin, end - begin), spans_within(string.foreign, begin, end)},
      string.markup);
}

void append_string(MarkedText& out, const Value& string) {
  out.append(string_of(string).text, string_of(string).foreign);
}

void mark_foreign(Run& run, const Value& result) {
  if (result.is_sequence()) {
    for (const Value& item : items_of(result)) {
      if (item.is(Kind::string)) mark_foreign(run, item);
    }
    return;
  }
  if (!result.is(Kind::string) || result.as_object()->run == nullptr) return;
  auto& string = *static_cast<String*>(result.as_object());
  if (string.foreign_known || string.text.empty()) return;
  run.charge(sizeof(Span));
  string.charged_bytes += sizeof(Span);
  string.foreign = {{0, string.text.size()}};
  string.foreign_known = true;
}

void MarkedText::append(std::string_view piece, bool is_foreign) {
  const size_t begin = text.size();
  text += piece;
  if (!is_foreign || piece.empty()) return;
  if (!foreign.empty() && foreign.back().end == begin) {
    foreign.back().end = text.size();
  } else {
    foreign.push_back({begin, text.size()});
  }
}

void MarkedText::append(std::string_view piece,
                        const std::vector<Span>& foreign_in_piece) {
  const size_t base = text.size();
  text += piece;
  for (const Span& span : foreign_in_piece) {
    if (!foreign.empty() && foreign.back().end == base + span.begin) {
      foreign.back().end = base + span.end;
    } else {
      foreign.push_back({base + span.begin, base + span.end});
    }
  }
}

std::vector<Span> spans_within(const std::vector<Span>& spans, size_t begin, size_t end) {
  std::vector<Span> out;
  for (const Span& span : spans) {
    const size_t first = std::max(span.begin, begin), last = std::min(span.end, end);
    if (first < last) out.push_back({first - begin, last - begin});
  }
  return out;
}

Value make_constant_string(std::string text) {
  auto* string = new String;
  string->kind = Kind::string;
  string->length = count_code_points(text);
  string->text = std::move(text);
  return Value::object(Kind::string, string);
}

Value make_int(Run& run, BigInt value) {
  if (value.fits_int64()) return Value::integer(value.to_int64());
  if (value.bytes() > 4096) run.fail("an integer grows past 4096 bytes");
  auto* big = new_object<BigInteger>(run, Kind::big_integer, value.bytes());
  big->value = std::move(value);
  return Value::object(Kind::big_integer, big);
}

Value make_list(Run& run, std::vector<Value> items) {
  return make_sequence(run, Kind::list, std::move(items));
}

Value make_tuple(Run& run, std::vector<Value> items) {
  return make_sequence(run, Kind::tuple, std::move(items));
}

Value make_range(Run& run, int64_t start, int64_t stop, int64_t step) {
  auto* range = new_object<Range>(run, Kind::range, 0);
  range->start = start;
  range->stop = stop;
  range->step = step;
  return Value::object(Kind::range, range);
}

Value make_view(Run& run, Value dict, ViewOf what) {
  auto* view = new_object<DictView>(run, Kind::dict_view, 0);
  view->depth = depth_of(dict) + 1;
  view->dict = std::move(dict);
  view->what = what;
  return Value::object(Kind::dict_view, view);
}

Value make_namespace(Run& run) {
  Value name_space =
      Value::object(Kind::name_space, new_object<Namespace>(run, Kind::name_space, 0));
  run.adopt(name_space);
  return name_space;
}

Value make_undefined(Run& run, std::string reason) {
  auto* undefined = new_object<String>(run, Kind::undefined, reason.capacity());
  undefined->text = std::move(reason);
  return Value::object(Kind::undefined, undefined);
}

Value make_undefined(Run& run, const char* reason) {
  return make_undefined(run, std::string(reason));
}

// ---- Dicts --------------------------------------------------------------------------

namespace {

// The slot of the key, or of the empty place where it would go.
template <typename IsKey>
size_t find_slot(Run& run, const Dict& dict, size_t hash, IsKey is_key) {
  const size_t mask = dict.slots.size() - 1;
  size_t slot = hash & mask;
  while (dict.slots[slot] != 0 && !is_key(dict.entries[dict.slots[slot] - 1].first)) {
    run.step();
    slot = (slot + 1) & mask;
  }
  return slot;
}

template <typename IsKey>
const Value* find_entry(Run& run, const Dict& dict, size_t hash, IsKey is_key) {
  if (dict.slots.empty()) {
    for (const auto& [key, value] : dict.entries) {
      if (is_key(key)) return &value;
    }
    return nullptr;
  }
  const uint32_t entry = dict.slots[find_slot(run, dict, hash, is_key)];
  return entry == 0 ? nullptr : &dict.entries[entry - 1].second;
}

void rebuild_index(Run& run, Dict& dict) {
  size_t size = 32;
  while (size < dict.entries.size() * 4) size *= 2;
  dict.slots.assign(size, 0);
  run.step(static_cast<int64_t>(dict.entries.size()));
  for (uint32_t i = 0; i < dict.entries.size(); ++i) {
    size_t hash = hash_of(run, dict.entries[i].first);
    dict.slots[find_slot(run, dict, hash, [](const Value&) { return false; })] = i + 1;
  }
}

}  // namespace

const Value* dict_find(Run& run, const Dict& dict, const Value& key) {
  return find_entry(run, dict, hash_of(run, key),
                    [&](const Value& other) { return equal(run, key, other); });
}

const Value* dict_find(Run& run, const Dict& dict, std::string_view key) {
  return find_entry(run, dict, hash_of_text(key), [&](const Value& other) {
    return other.is(Kind::string) && text_of(other) == key;
  });
}

DictBuilder::DictBuilder(Run& run)
    : run_(run), dict_(new_object<Dict>(run, Kind::dict, 0)) {}

DictBuilder::~DictBuilder() {
  if (dict_ != nullptr) destroy_object(dict_);
}

void DictBuilder::set(Value key, Value value) {
  dict_->depth = std::max({dict_->depth, depth_of(key) + 1, depth_of(value) + 1});
  if (dict_->depth > static_cast<uint32_t>(run_.limits.max_value_depth)) {
    run_.fail("values are nested more than {} deep", run_.limits.max_value_depth);
  }
  if (const Value* old = dict_find(run_, *dict_, key)) {
    *const_cast<Value*>(old) = std::move(value);  // the dict is still ours alone
    return;
  }
  constexpr size_t kEntryBytes =
      2 * sizeof(std::pair<Value, Value>) + 8 * sizeof(uint32_t);
  run_.charge(kEntryBytes);
  dict_->charged_bytes += kEntryBytes;
  const size_t hash = hash_of(run_, key);
  dict_->entries.emplace_back(std::move(key), std::move(value));
  const size_t n = dict_->entries.size();
  if (n <= kIndexFrom) return;
  if (dict_->slots.size() < 2 * n) {
    rebuild_index(run_, *dict_);
  } else {
    size_t slot = find_slot(run_, *dict_, hash, [](const Value&) { return false; });
    dict_->slots[slot] = static_cast<uint32_t>(n);
  }
}

bool DictBuilder::add(const Value& key) {
  if (dict_find(run_, *dict_, key) != nullptr) return false;
  set(key, Value::none());
  return true;
}

void DictBuilder::set(std::string_view key, Value value) {
  set(make_string(run_, std::string(key)), std::move(value));
}

Value DictBuilder::finish() {
  return Value::object(Kind::dict, std::exchange(dict_, nullptr));
}

}  // namespace ingot::jinja
