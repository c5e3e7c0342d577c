-- The pair of a rule and a key, as it is stored.
--
-- A pair is a hash. Its field s has words:
--
--   the instant until which the key is certain to be kept, in microseconds since 1970
--   its states: each is a kind, plus a code, and the words that the file of its algorithm describes
--   its cells: see cells.lua
--
-- A kind is an algorithm and a period or a calendar, which is greater than any period:
--
--   period in µs · 24        token bucket; 1 or 2 more if its ticks are milliseconds or seconds
--   period in µs · 24 + 4    fixed window
--   calendar · 24 + 4        fixed window of a calendar
--   period in µs · 24 + 8    sliding window
--   period in µs · 24 + 12   sliding log, whose entries are in a sorted set: its key is the pair's, a colon and the period
--
-- 24 leaves room for six algorithms, and the kind of a bucket within the whole numbers.
--
-- Buckets or sliding windows of one kind are siblings. They differ in their second words, which are their sibling numbers.
--
-- A plan has a table for each pair of its requests. Most pairs have just the states of the plan, in its order, and no cells: then the
-- limits read and write them where they are. Any other pair is taken apart: then it has a list of states and a list of cells, and each
-- limit of the plan has its state. A state is a table with its kind, sibling number, algorithm and words, as text. Each sibling of a
-- limit has a limit of its own, which is opened like any other.
--
-- The functions that compile adds to a limit share its opened state. It is in variables, which are faster than the fields of a table.
--
-- A change of what is stored changes the version in key.go.
local maxKept = 4 * maxExact -- that a first word can say
local slack = 10000 -- milliseconds that a key is kept for longer, so that few requests have to prolong that
local maxSiblings, maxStates = 8, 100 -- of a kind, and of a pair
local algorithms = {} -- by kind % 24, less the code
local repaired = 0 -- states that made no sense
local repair -- below
local firstCalendar = 3 * 140737488355328 * 24 -- 3 · 2^47: the least kind of a calendar

-- dropState removes a state of a pair, if the pair has it.
local function dropState(pair, s)
  for i, other in ipairs(pair.states) do
    if other == s then
      return table.remove(pair.states, i)
    end
  end
end

-- forget forgets what an earlier request has found in a pair.
local function forget(pair)
  pair.states, pair.cells, pair.head, pair.resetAt, pair.hasNew, pair.dirty = {}, {}, 0, 0, false, false
end

-- sizeOf returns how many words a state has, or nil if there is none of an algorithm with these first words.
local function sizeOf(algorithm, tag, sibling)
  return algorithm and (tag % 4 == 0 or algorithm == algorithms[0]) and (algorithm.size or algorithm.sizeOf(tag, sibling))
end

-- newLimit returns a limit that has states, or nil if there can be none: see plan.lua. Limits with the same identity are charged alike.
local function newLimit(kind, rate, capacity, unit, ban, starts)
  local algorithm = algorithms[kind % 24]
  local l = {
    kind = kind, tag = kind, micros = floorDiv(kind, 24), rate = rate, capacity = capacity, unit = unit, ban = ban, starts = starts,
    identity = pack(fiveWords, kind, rate, capacity, unit, ban), algorithm = algorithm, wait = 0, others = 0,
    lasts = floorDiv(kind, 24), drains = 0, -- for how many microseconds a charge counts, plus how many for each request
    full = rate, period = 1, sibling = 0, least = -maxExact, mostGranted = maxExact, -- most algorithms count requests
  }
  algorithm.compile(l)
  l.size = sizeOf(algorithm, l.tag, l.sibling)
  if not l.size or l.full > maxExact then
    return nil
  end
  l.own = {kind = kind, sibling = l.sibling, algorithm = algorithm, text = '', ends = 0, isNew = false} -- its state, unless another has it
  l.form = formats[l.size]
  l.blank = pack(twoWords, l.tag, l.sibling) .. string.rep('\0', word * (l.size - 2))
  return l
end

-- openState opens a limit and its siblings, and returns what the limit has used. A state that is not stored is new.
local function openState(l, now)
  local states, siblings, own = l.pair.states, nil, nil
  l.fullest, l.others = nil, 0
  for i = 1, #states do
    local s = states[i]
    if s.kind == l.kind and s.sibling == l.sibling then
      own = s
    elseif s.kind == l.kind then
      local isBucket = l.algorithm == algorithms[0]
      local other = newLimit(l.kind, isBucket and s.sibling or l.rate, l.capacity, isBucket and l.unit or s.sibling, 0)
      other.pair, other.state, other.ended, other.isSibling = l.pair, s, l.ended, true
      if not other.open(s.text, 1, now) then
        return repair(l, now, s)
      end
      local seen = other.used()
      if seen > l.others or seen == l.others and l.fullest and other.sibling > l.fullest.sibling then
        l.fullest, l.others = other, seen
      end
      siblings = siblings or {}
      siblings[#siblings + 1] = other
    end
  end
  if not own then
    own, l.own.text, l.own.isNew = l.own, l.blank, true
  end
  l.state, l.siblings = own, siblings
  return l.open(own.text, 1, now) or repair(l, now, own)
end

-- rewrite sets the text of the state of a limit to what the limit says.
local function rewrite(l)
  l.state.text, l.pair.dirty = pack(l.form, l.words()), true
end

-- store stores the opened state of a limit.
local function store(l)
  local s, pair = l.state, l.pair
  rewrite(l)
  if s.isNew then
    s.isNew, pair.hasNew = false, true
    table.insert(pair.states, s)
  end
end

-- makeRoom drops siblings of the state of a limit that are empty at now. If a new state still has too many, makeRoom drops the one
-- that ends first (of several, the one with the least sibling number).
local function makeRoom(l, now)
  local kept = {}
  for _, other in ipairs(l.siblings) do
    local s = other.state
    s.ends = s.algorithm.ends(s.text)
    if s.ends <= now then
      dropState(l.pair, s)
    else
      kept[#kept + 1] = s
    end
  end
  table.sort(kept, function(a, b) return a.ends < b.ends or a.ends == b.ends and a.sibling < b.sibling end)
  if l.state.isNew and #kept >= maxSiblings then
    dropState(l.pair, kept[1])
  end
end

-- chargeState charges cost to an opened limit, even if it does not fit, with a function: charge or book. A limit with siblings joins them
-- first. A bucket begins no ban if its level before is too high: it is the limit's own, unless the caller gives math.huge.
local function chargeState(l, now, cost, charge, before)
  before = before or l.used()
  if l.siblings then
    makeRoom(l, now)
    l.algorithm.join(l, now, cost)
  end
  charge(now, cost, before)
  store(l)
end

-- repair replaces a state of l or of a sibling that makes no sense: l is just used up, which neither resets the limit nor denies for
-- ever. It returns what l has used.
function repair(l, now, broken)
  repaired = repaired + 1
  dropState(l.pair, broken)
  openState(l, now)
  chargeState(l, now, l.capacity, l.charge, math.huge)
  return openState(l, now)
end

-- readStates reads the states of a pair, and returns where its cells begin, or nil if the value makes no sense.
local function readStates(pair, value)
  local at, states, count = word + 1, pair.states, 0
  while at + 2 * word - 1 <= #value do
    local tag, sibling = unpackWords(twoWords, value, at)
    if tag < 24 then
      return at
    end
    local l, s, size = pair[count + 1], nil, nil
    if l and l.tag == tag and (l.sibling == 0 or l.sibling == sibling) then
      s, size = l.own, l.size
    else
      local kind = tag - tag % 4
      local algorithm = tag <= 24 * maxExact and algorithms[kind % 24]
      size = sizeOf(algorithm, tag, sibling)
      s = {kind = kind, sibling = size and algorithm.hasSiblings and sibling or 0, algorithm = algorithm}
    end
    local last = size and at + size * word - 1
    if not size or last > #value or count == maxStates then
      return nil
    end
    count, s.text, s.isNew = count + 1, sub(value, at, last), false
    states[count], at = s, last + 1
  end
  return at
end

-- groups has the limits that holds are charged to when they end, by the words of a group: see cells.lua.
local groups = newCache(function(text)
  local group = {text = text, of = ''}
  for at = 2 * word + 1, #text, 7 * word do
    local kind, rate, capacity, unit, ban, start, ends = unpackWords(formats[7], text, at)
    local isLimit = algorithms[kind % 24] and min(kind / 24, rate, capacity) >= 1 and max(kind / 24, rate, capacity, unit, ban, start, ends) <= maxExact
    local l = isLimit and newLimit(kind, rate, capacity, unit, ban, kind >= firstCalendar and {start, ends})
    if not l then
      return nil
    end
    l.ended, group.of, group[#group + 1] = true, group.of .. l.identity, l
  end
  return group
end, 1000)

-- readCells reads the cells of a pair from a place in its value. It raises an error if they make no sense, as unpackWords does at the
-- end of the value.
local function readCells(pair, value, at)
  local cells, named, latest = pair.cells, {}, 0
  while at <= #value do
    local kind, ends, n, of, number = unpackWords(fiveWords, value, at)
    local last = at + 5 * word - 1
    if kind == groupWords then
      last = at + (2 + 7 * ends) * word - 1
      named[#named + 1] = last <= #value and groups[sub(value, at, last)] or error('no group', 0)
    else
      local group, isHold = named[number], kind == holdCell
      if kind < holdCell or kind > resetCell or isHold and (of == 0 or number > 0 and not group) or max(ends, n) > maxExact or ends < latest then
        error('no cell', 0)
      end
      n, latest = kind == grantCell and n - grantZero or n, ends
      cells[#cells + 1] = newCell(kind, ends, n, isHold and (group and group.of or '') or of, of, group)
    end
    at = last + 1
  end
end

-- advanceCells brings the cells of a pair to now. It drops those that have ended, but not a ban, because the clock may go back. What a
-- hold held that has ended is charged to its limits, at its end. If the clock went back, no hold, ban or grant may end later than a new
-- one would.
local function advanceCells(pair, now)
  local cells, kept = pair.cells, {}
  sumCells(pair) -- a log looks for a reset
  pair.cells = kept
  for i = 1, #cells do
    local cell = cells[i]
    local latest = cell.kind == holdCell and endOfHold(now) or cell.kind == banCell and cell.n > 0 and now + cell.n or maxExact
    if cell.kind == grantCell then
      latest = cell.of % 24 >= 8 and now + floorDiv(cell.of, 24) or algorithms[4].latest(pair, cell, now)
    end
    if cell.ends > latest then
      cell.ends = latest
      addCell(pair, cell)
    elseif cell.ends > now or cell.kind == banCell then
      kept[#kept + 1] = cell
    elseif cell.kind == holdCell then
      pair.dirty = true
      for _, l in ipairs(cell.group or none) do
        l.pair, l.own = pair, {kind = l.kind, sibling = l.sibling, algorithm = l.algorithm} -- other pairs have the group, too
        openState(l, cell.ends)
        chargeState(l, cell.ends, cell.n, l.charge)
      end
    end
  end
end

-- takeApart makes states and cells of the value of a pair, or of none, and opens the pair's limits. If the value makes no sense, all of
-- them are just used up.
local function takeApart(pair, key, now)
  local value = tryCall('HGET', key, 's')
  local isGood = not value
  forget(pair)
  pair.key = key
  if type(value) == 'table' then
    if not string.find(value.err, 'WRONGTYPE', 1, true) then
      error(value.err, 0)
    end
    call('DEL', key)
  elseif value and #value >= word then
    pair.head = unpackWords(oneWord, value)
    local at = pair.head <= maxKept and readStates(pair, value)
    isGood = at and (at > #value or pcall(readCells, pair, value, at))
  end
  if not isGood then
    forget(pair)
    pair.dirty = true
  elseif pair.cells[1] then
    advanceCells(pair, now)
  end
  sumCells(pair)
  for i = 1, #pair do
    (isGood and openState or repair)(pair[i], now)
  end
end

-- lastOfCells returns an instant from which the cells of a pair, and what its holds will be charged, no longer matter.
local function lastOfCells(pair)
  local last, cells = 0, pair.cells
  for i = 1, #cells do
    local ends, group = cells[i].ends, cells[i].group or none
    last = max(last, ends)
    for k = 1, #group do
      local l, used = group[k], 0
      for _, s in ipairs(pair.states) do -- buckets of one kind have their rates as sibling numbers
        if s.kind == l.kind then
          used = max(used, (s.ends - ends) * s.sibling / l.micros)
        end
      end
      last = max(last, l.starts and l.starts[2] or ends + l.lasts + l.drains * (used + pair.heldCost))
    end
  end
  return last
end

-- headOf returns the first word of a pair that matters until last, which is later than its old one.
local function headOf(last, now)
  return 1000 * (ceilDiv(min(max(last, now), now + maxExact), 1000) + slack)
end

-- keep keeps the key of a pair until the instant that is the first word of its stored value, head. If the server denies that, keep stores
-- a value that does not say so: a later request tries again.
local function keep(pair, value, head, now)
  local reply = tryCall('PEXPIRE', pair.key, format('%d', head / 1000 - floorDiv(now, 1000)))
  if type(reply) == 'table' then
    call('HSET', pair.key, 's', pack(oneWord, 1) .. sub(value, word + 1))
    error(reply.err, 0)
  end
end

-- withCells appends the words of cells to a text, each group before the first hold that names it.
local function withCells(text, cells)
  local numbers, count = {[none] = 0}, 0
  for i = 1, #cells do
    local cell = cells[i]
    local n, group = cell.kind == grantCell and cell.n + grantZero or cell.n, cell.group or none
    if not numbers[group] then
      count = count + 1
      numbers[group], text = count, text .. group.text
    end
    text = text .. pack(fiveWords, cell.kind, cell.ends, n, cell.count, numbers[group])
  end
  return text
end

-- arrange puts the states of a pair that was taken apart in the order in which they are stored: the plan's first. If there is a new one,
-- arrange drops other kinds that have ended; and always the states that end first, if there are too many.
local function arrange(pair, now)
  local states = pair.states
  for i = #states, 1, -1 do
    local s, isOther = states[i], pair.hasNew
    s.ends, s.place = s.algorithm.ends(s.text), #pair + 1
    for k = 1, #pair do
      local l = pair[k]
      if s.kind == l.kind then
        isOther, s.place = false, s.sibling == l.sibling and k or s.place
      end
    end
    if isOther and s.ends < now then
      table.remove(states, i)
    end
  end
  table.sort(states, function(a, b) return a.place < b.place or a.place == b.place and a.ends > b.ends end)
  for i = #states, maxStates + 1, -1 do
    states[i] = nil
  end
end

-- saveChanged stores a pair if it has changed.
local function saveChanged(pair, now)
  if not pair.dirty then
    return
  end
  arrange(pair, now)
  local states, text, last = pair.states, '', lastOfCells(pair)
  for i = 1, #states do
    text, last = text .. states[i].text, max(last, states[i].ends)
  end
  if last == 0 then
    return call('DEL', pair.key)
  end
  local later = (last > pair.head or now > pair.head) and headOf(last, now)
  local value = withCells(pack(oneWord, later or pair.head) .. text, pair.cells)
  call('HSET', pair.key, 's', value)
  return later and keep(pair, value, later, now)
end
