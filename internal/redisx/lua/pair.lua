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
-- A plan has a table for each pair of its requests, and each request overwrites its fields. Most pairs have just the states of the
-- plan, in its order: then its limits read them from the value of the pair. Any other pair is taken apart: then it has a list of
-- states, and each limit of the plan has its state and siblings. A state is a table with its kind, sibling number, algorithm and
-- words, as text.
--
-- A change of what is stored changes the version in key.go.
local maxKept = 4 * maxExact -- that a first word can say
local slack = 10000 -- milliseconds that a key is kept for longer, so that few requests have to prolong that
local maxSiblings, maxStates = 8, 100 -- of a kind, and of a pair
local algorithms = {} -- by kind % 24, less the code
local repaired = 0 -- states that made no sense
local scratch = {}
local firstCalendar = 3 * 140737488355328 * 24 -- 3 · 2^47: the least kind of a calendar
local maxSubBuckets = 60

-- removeFrom removes an element of a list, if it is there.
local function removeFrom(list, element)
  for i, other in ipairs(list) do
    if other == element then
      return table.remove(list, i)
    end
  end
end

-- identityOf returns what limits are charged to.
local function identityOf(limits)
  local all = {}
  for i, l in ipairs(limits) do
    all[i] = l.identity
  end
  return table.concat(all)
end

-- sizeOf returns how many words a state has.
local function sizeOf(kind, sibling)
  if kind % 24 == 8 then
    return ceilDiv(floorDiv(kind, 24), sibling) + 4
  end
  return algorithms[kind % 24].size
end

-- newLimit returns a limit that has states: see plan.lua. Limits with the same identity are charged alike.
local function newLimit(kind, rate, capacity, unit, ban, starts)
  local algorithm = algorithms[kind % 24]
  local l = {
    kind = kind, tag = kind, micros = floorDiv(kind, 24), rate = rate, capacity = capacity, unit = unit, ban = ban, starts = starts,
    identity = pack(formats[5], kind, rate, capacity, unit, ban), algorithm = algorithm, asked = 0, room = 0,
    open = algorithm.open, charge = algorithm.charge, book = algorithm.book, put = algorithm.put, refund = algorithm.refund, report = algorithm.report,
    tell = algorithm.tell or tellFree,
  }
  algorithm.compile(l)
  l.size = sizeOf(kind, l.sibling)
  l.form, l.blank = formats[l.size], pack(formats[2], l.tag, l.sibling) .. string.rep('\0', word * (l.size - 2))
  return l
end

-- openState opens a limit, and returns its wait. A state that is not stored is new.
local function openState(l, now)
  local pair = l.pair
  if not pair.states then
    return l.open(l, pair.value, l.place, now)
  end
  l.state, l.siblings = nil, {}
  for _, s in ipairs(pair.states) do
    if s.kind == l.kind and s.sibling == l.sibling then
      l.state = s
    elseif s.kind == l.kind then
      table.insert(l.siblings, s)
    end
  end
  l.state = l.state or {kind = l.kind, sibling = l.sibling, algorithm = l.algorithm, text = l.blank, isNew = true}
  return l.open(l, l.state.text, 1, now)
end

-- stored returns a value with the state of a limit as it is stored, and its place.
local function stored(l)
  if l.pair.states then
    return l.state.text, 1
  end
  return l.pair.value, l.place
end

-- textOfState returns the words of the opened state of a limit.
local function textOfState(l)
  scratch[1], scratch[2] = l.tag, l.sibling
  l.put(l, scratch, 0)
  return pack(l.form, unpack(scratch, 1, l.size))
end

-- store stores the opened state of a limit.
local function store(l)
  local s, pair = l.state, l.pair
  l.isChanged, pair.dirty = true, true
  if pair.states then
    s.text = textOfState(l)
    if s.isNew then
      s.isNew, pair.hasNew = nil, true
      table.insert(pair.states, s)
    end
  end
end

-- makeRoom drops siblings of the state of a limit that are empty at now. If a new state still has too many, makeRoom drops the one
-- that ends first (of several, the one with the least sibling number).
local function makeRoom(l, now)
  local states, count, first, least = l.pair.states, 0, nil, nil
  for i = #states, 1, -1 do
    local s = states[i]
    if s.kind == l.kind and s ~= l.state then
      local ends = s.algorithm.ends(s.text)
      if ends <= now then
        table.remove(states, i)
      else
        count = count + 1
        if not first or ends < least or ends == least and s.sibling < first.sibling then
          first, least = s, ends
        end
      end
    end
  end
  if l.state.isNew and count >= maxSiblings then
    removeFrom(states, first)
  end
end

-- chargeState charges cost to an opened limit, even if it does not fit, with a function: charge or book.
local function chargeState(l, now, cost, charge)
  if l.siblings and #l.siblings > 0 then
    makeRoom(l, now)
  end
  charge(l, now, cost)
  store(l)
end

-- repair replaces a state of l or of a sibling that makes no sense: l is just used up, which neither admits anew nor denies for
-- ever. It returns the wait of l.
local function repair(l, broken, now)
  repaired = repaired + 1
  if broken then
    removeFrom(l.pair.states, broken)
  end
  openState(l, now)
  local ban = l.ban
  l.ban = 0
  chargeState(l, now, l.capacity, l.charge)
  l.ban = ban
  return openState(l, now)
end

-- resetBroken replaces a pair that makes no sense: all its limits are just used up.
local function resetBroken(pair, now)
  pair.states, pair.cells, pair.head, pair.dirty = {}, {}, 0, true
  for _, l in ipairs(pair) do
    l.pair = pair
    if l.rate > 0 then
      repair(l, nil, now)
    end
  end
end

-- readStates reads the states of a pair, and returns where its cells begin, or nil if the value makes no sense.
local function readStates(pair, value)
  local at = word + 1
  while at <= #value do
    local kind, sibling = unpackWords(formats[1], value, at), 0
    if kind < 24 then
      return at
    end
    local code = kind % 4
    local algorithm, isBucket, isRing = algorithms[kind % 24 - code], kind % 24 < 4, kind % 24 == 8
    if not algorithm or kind > 24 * maxExact or code > (isBucket and 2 or 0) or #value < at + 2 * word - 1 or #pair.states == maxStates then
      return nil
    elseif isBucket or isRing then
      sibling = unpackWords(formats[1], value, at + word)
      if sibling == 0 or sibling > maxExact or isRing and ceilDiv(floorDiv(kind, 24), sibling) > maxSubBuckets then
        return nil
      end
    end
    local size = word * sizeOf(kind - code, sibling)
    if at + size - 1 > #value then
      return nil
    end
    table.insert(pair.states, {kind = kind - code, sibling = sibling, algorithm = algorithm, text = sub(value, at, at + size - 1)})
    at = at + size
  end
  return at
end

-- limitsOfHolds has the limits that holds name, by their words.
local limitsOfHolds = newCache(function(text)
  local kind, rate, capacity, unit, ban, start, ends = unpackWords(formats[7], text)
  local isBucket = kind % 24 == 0
  if not algorithms[kind % 24] or kind < 24 or rate == 0 or capacity == 0 or max(kind / 24, rate, capacity, unit, ban, start, ends) > maxExact then
    return nil
  elseif isBucket and unit ~= 1 and unit ~= 1000 and unit ~= 1000000 or kind % 24 == 8 and (unit == 0 or ceilDiv(floorDiv(kind, 24), unit) > maxSubBuckets) then
    return nil
  elseif isBucket and capacity * ceilDiv(floorDiv(kind, 24), unit) > maxExact then
    return nil
  end
  local l = newLimit(kind, rate, capacity, unit, ban, kind >= firstCalendar and {start, ends} or nil)
  l.text, l.ended = text, true
  return l
end, 1000)

-- readCells reads the cells of a pair from a place in its value, and reports false if they make no sense.
local function readCells(pair, value, at)
  local limits, last = {}, 0
  local function read(n)
    local from = at
    at = at + n * word
    if at - 1 > #value then
      error('cut off', 0)
    end
    return unpackWords(formats[n], value, from)
  end
  while at <= #value do
    local kind = read(1)
    local cell = {kind = kind}
    if kind == limitWords then
      local l = limitsOfHolds[sub(value, at, at + 7 * word - 1)]
      read(7)
      limits[#limits + 1] = l or error('no limit', 0)
    else
      cell.ends = read(1)
      if kind == holdCell then
        local n
        cell.n, cell.count, n = read(3)
        cell.limits = {}
        for i = 1, n do
          cell.limits[i] = limits[read(1)] or error('no limit', 0)
        end
        cell.of = identityOf(cell.limits)
      elseif kind == grantCell then
        cell.n, cell.of = read(2)
        cell.n = cell.n - grantZero
      elseif kind == resetCell then
        cell.n = read(1)
      else
        cell.n = 0
      end
      if kind > resetCell or kind < holdCell or cell.ends > maxExact or cell.n > maxExact or cell.ends < last or kind == holdCell and cell.count == 0 then
        error('no cell', 0)
      end
      last = cell.ends
      table.insert(pair.cells, cell)
    end
  end
end

-- chargeEnded charges what a hold that has ended held to its limits, at its end.
local function chargeEnded(pair, cell)
  for _, l in ipairs(cell.limits) do
    l.pair, l.asked, l.room = pair, 0, 0
    l.key = pair.key .. ':' .. format('%d', l.micros)
    openState(l, cell.ends)
    chargeState(l, cell.ends, cell.n, l.charge)
  end
end

-- advanceCells brings the cells of a pair to now. It drops those that have ended, but not a ban, because the clock may go back.
local function advanceCells(pair, now)
  rewindCells(pair, now)
  local cells, i = pair.cells, 1
  while cells[i] and cells[i].ends <= now do
    if cells[i].kind == banCell then
      i = i + 1
    else
      local cell = table.remove(cells, i)
      if cell.kind == holdCell then
        pair.dirty = true
        chargeEnded(pair, cell)
      end
    end
  end
end

-- takeApart makes states and cells of the value of a pair, or of none. A value may be the error of a command that could not read it.
local function takeApart(pair, value, now)
  pair.states, pair.cells, pair.head, pair.grants, pair.bannedUntil, pair.hasNew, pair.dirty = {}, {}, 0, 0, 0, false, false
  if type(value) == 'table' and not string.find(value.err, 'WRONGTYPE', 1, true) then
    error(value.err, 0)
  elseif type(value) == 'table' then
    call('DEL', pair.key)
    return resetBroken(pair, now)
  elseif value then
    local at
    if #value >= word and #value % word == 0 then
      pair.head = unpackWords(formats[1], value)
      at = pair.head <= maxKept and readStates(pair, value)
    end
    if not at or not pcall(readCells, pair, value, at) then
      return resetBroken(pair, now)
    end
  end
  if #pair.cells > 0 then
    advanceCells(pair, now)
    sumCells(pair)
  end
end

-- readTail reads the cells behind the states of a plan in the value of a pair, and reports whether it can be done so: neither are
-- there other states, nor has the time changed what the cells say. It also returns the first word.
local function readTail(pair, value, now)
  if type(value) == 'table' or #value < pair.bytes + 2 * word or #value % word > 0 then
    return false
  end
  local head, kind = unpackWords(formats[1], value), unpackWords(formats[1], value, pair.bytes + 1)
  pair.cells = {}
  if kind >= 24 or head > maxKept or not pcall(readCells, pair, value, pair.bytes + 1) then
    return false
  end
  for _, cell in ipairs(pair.cells) do
    if cell.ends > latestOf(cell, now) or cell.ends <= now and cell.kind ~= banCell then
      return false
    end
  end
  sumCells(pair)
  return true, head
end

-- lastOfHolds returns an instant from which what the holds of a pair will be charged no longer matters.
local function lastOfHolds(pair, states)
  local last = 0
  for _, cell in ipairs(pair.cells) do
    for _, l in ipairs(cell.limits or {}) do
      local ends, used = cell.ends + l.micros, 0
      if l.starts then
        ends = l.starts[2]
      elseif l.kind % 24 == 8 then
        ends = ends + l.width
      elseif l.kind % 24 == 0 then
        for _, s in ipairs(states) do
          if s.kind == l.kind then
            used = max(used, (s.algorithm.ends(s.text) - cell.ends) * s.sibling / l.micros)
          end
        end
        ends = cell.ends + (used + pair.heldCost) / l.rate * ceilDiv(l.micros, l.unit) * l.unit + l.ban
      end
      last = max(last, ends)
    end
    last = max(last, cell.ends)
  end
  return last
end

-- save stores the value of a pair that matters until last: what pair.words have or, if there is a text, that behind its first word. If
-- its key has to be kept for longer, but the server denies that, the pair does not say so: a later request tries again.
local function save(pair, last, now, rest)
  local head, prolong, words = pair.head, nil, pair.words
  if last > head or now > head then
    prolong = ceilDiv(min(max(last, now), now + maxExact), 1000) + slack
    head = 1000 * prolong
  end
  words[1] = head
  local value = rest and pack(oneWord, head) .. rest or pack(pair.form, unpack(words, 1, pair.size))
  call('HSET', pair.key, 's', value)
  if prolong then
    local reply = tryCall('PEXPIRE', pair.key, format('%d', prolong - floorDiv(now, 1000)))
    if type(reply) == 'table' then
      call('HSET', pair.key, 's', pack(oneWord, 1) .. sub(value, word + 1))
      error(reply.err, 0)
    end
  end
end

-- textOfCells returns the words of cells.
local function textOfCells(cells)
  local places, count, texts, limits = {}, 0, {}, {}
  for _, cell in ipairs(cells) do
    local words, n = {cell.kind, cell.ends}, 2
    if cell.kind == holdCell then
      words[3], words[4], words[5], n = cell.n, cell.count, #cell.limits, 5
      for _, l in ipairs(cell.limits) do
        if not places[l.text] then
          count = count + 1
          places[l.text], limits[count] = count, pack(formats[1], limitWords) .. l.text
        end
        n = n + 1
        words[n] = places[l.text]
      end
    elseif cell.kind == grantCell then
      words[3], words[4], n = cell.n + grantZero, cell.of, 4
    elseif cell.kind == resetCell then
      words[3], n = cell.n, 3
    end
    texts[#texts + 1] = textOf(words, n)
  end
  return table.concat(limits) .. table.concat(texts)
end

-- inOrder returns the states of a pair that was taken apart, in the order in which they are stored: those of the plan first. If there
-- is a new one, inOrder drops other kinds that have ended; and always those that end first, if there are too many.
local function inOrder(pair, now)
  local first, rest, isFirst = {}, {}, {}
  for _, l in ipairs(pair) do
    for _, s in ipairs(pair.states) do
      if s.kind == l.kind and s.sibling == l.sibling then
        table.insert(first, s)
        isFirst[s] = true
      end
    end
  end
  for _, s in ipairs(pair.states) do
    s.ends = s.algorithm.ends(s.text)
    if not isFirst[s] and (not pair.hasNew or pair.kinds[-s.kind] or s.ends >= now) then
      table.insert(rest, s)
    end
  end
  table.sort(rest, function(a, b) return a.ends > b.ends end)
  for i = 1, min(#rest, maxStates - #first) do
    table.insert(first, rest[i])
  end
  return first
end

-- saveChanged stores a pair if it has changed.
local function saveChanged(pair, now)
  if not pair.dirty then
    return
  end
  local states, texts = pair, {}
  pair.cells = pair.cells or {}
  if pair.states then
    states = inOrder(pair, now)
  else
    for _, l in ipairs(pair) do
      l.text = l.isChanged and textOfState(l) or sub(pair.value, l.place, l.place + word * l.size - 1)
    end
  end
  local last = lastOfHolds(pair, states)
  for i, s in ipairs(states) do
    texts[i], last = s.text, max(last, s.algorithm.ends(s.text))
  end
  pair.dirty = false
  if last == 0 then
    call('DEL', pair.key)
  else
    save(pair, last, now, table.concat(texts) .. textOfCells(pair.cells))
  end
end
