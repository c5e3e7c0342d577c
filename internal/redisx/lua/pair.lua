-- A pair of rule and key has one string with the states of its limits, and one sorted set if it has sliding logs. Each
-- is a key of its own. The string begins with a word: when it expires, in milliseconds since 1970. Then it has a section
-- for each state, which begins with two words:
--
--   kind   period in µs · 16 + algorithm · 4 + tick of a bucket (0: µs, 1: ms, 2: s)
--   ends   when the state no longer matters, in milliseconds since 1970, rounded up
--
-- and goes on with two words of a fixed window (1), three of a token bucket (0) or, for a sliding window (2), two words
-- and as many bytes as the second says. States of limits that are not asked for, because a tier or a configuration has
-- changed, are kept until they end.
local made = {}

-- algorithmOf returns the functions of an algorithm. They are made when first asked for, since making them takes time.
local function algorithmOf(letter)
  local a = made[letter]
  if not a then
    a = ({b = tokenBucket, w = fixedWindow, s = slidingWindow, l = slidingLog})[letter]()
    made[letter] = a
  end
  return a
end

local pairsOf = {} -- the pairs of the request under way, by their keys

local function pairOf(key)
  local pair = pairsOf[key]
  if not pair then
    pair = {key = key, states = {}, asked = {}, value = false, sections = {}, broken = false, dirty = false}
    pairsOf[key] = pair
  end
  return pair
end

-- isWrongType reports whether reply is the error of a command for another type of value. It raises all other errors.
local function isWrongType(reply)
  if type(reply) ~= 'table' then
    return false
  end
  if not find(reply.err, 'WRONGTYPE', 1, true) then
    error(reply.err, 0)
  end
  return true
end

-- sectionAt returns the section of a string that begins at a byte, or nil if none can.
local function sectionAt(value, start)
  if start + 4 * word > #value + 1 then
    return nil
  end
  local kind, ends, _, bytes = unpackWords('<I8I8I8I8', value, start)
  local algorithm, after = kind % 16 - kind % 4, start + 4 * word
  if algorithm == 0 then
    after = after + word
  elseif algorithm == 8 then
    after = after + bytes
  elseif algorithm == 12 then
    return nil
  end
  if after > #value + 1 then
    return nil
  end
  return {kind = kind, ends = ends, start = start, after = after}
end

-- split returns the sections of a string, or nil if it makes no sense.
local function split(value, now)
  local sections, start = {}, 1 + word
  while start <= #value do
    local s = sectionAt(value, start)
    if not s then
      return nil
    end
    sections[#sections + 1] = s
    start = s.after
  end
  if start > 1 + word and unpackWords('<I8', value) <= lastInstant(now) then
    return sections
  end
end

-- fetch reads the string of a pair. The pair is broken if what it has makes no sense.
local function fetch(pair, now)
  local value = redis.pcall('GET', pair.key)
  pair.value = value or ''
  if not value then
    return
  end
  local sections = not isWrongType(value) and split(value, now)
  if sections then
    pair.sections = sections
  else
    pair.value, pair.broken = '', true
  end
end

-- section returns the state of a limit in the string of a pair, nil if there is none, or false if what there is makes no
-- sense.
local function section(pair, l, now)
  for _, s in ipairs(pair.sections) do
    if s.kind - s.kind % 4 == l.kind then
      s.asked = true
      local state = s.ends <= lastInstant(now) and l.algorithm.read(pair.value, s)
      if state then
        state.ends = s.ends
      end
      return state or false
    end
  end
end

-- sections returns the sections of a pair as they are to be, first those that were asked for, and when the last of them
-- ends. What ended before now is left out.
local function sections(pair, now)
  local kept, last = '', 0
  for _, l in ipairs(pair.asked) do
    local state = pair.states[l.name]
    if state.ends > floorDiv(now, 1000) then
      kept = kept .. l.algorithm.write(state, l.kind)
      last = max(last, state.ends)
    end
  end
  for _, s in ipairs(pair.sections) do
    if not s.asked and s.ends > floorDiv(now, 1000) and s.ends <= lastInstant(now) then
      kept = kept .. sub(pair.value, s.start, s.after - 1)
      last = max(last, s.ends)
    end
  end
  return kept, last
end

-- saveAll writes the strings that have changed.
local function saveAll(now)
  for key, pair in pairs(pairsOf) do
    if pair.dirty then
      local kept, last = sections(pair, now)
      if last == 0 then
        call('DEL', key)
      else
        store(key, packWords('<I8', last + slack) .. kept, last + slack, now)
      end
    end
  end
end
