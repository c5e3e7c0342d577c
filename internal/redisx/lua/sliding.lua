-- The state of a SlidingWindow or a SlidingLog: how much was admitted with which stamp. A SlidingLog stamps a request with its
-- instant, a SlidingWindow with the end of its sub-bucket; both count it until one period later. Mirrors internal/algorithm.
--
-- The words of its record: used (+1), the width of the widest sub-bucket that a stamp may be of (+2), the stamp of the
-- oldest entry (+3), the stamp (+4) and the count (+5) of the newest, the number of the oldest block (+6), the number
-- of blocks (+7), the number of the oldest block that may still be stored (+8), the number of recent entries (+9), and
-- room for these.
--
-- An entry is two words, a stamp and a count. The newest one and the recent ones before it are in the record; most
-- decisions need no other. The older ones are texts in further fields of the pair, which are read when they are needed:
--
--   <kind>           a list with an entry for each block: a stamp that none of its entries exceeds, and the sum of its
--                    counts; then the open entries, which are newer
--   <kind>:<number>  the entries of a block, maxEntries or fewer
--
-- No change is kept unless the pair is saved. Places in a text count from 0.
local sliding = {replied = 4}
sliding.__index = sliding

-- A window gets a new entry once in a sub-bucket, a log with each request: only its record has room for recent entries.
local slidingWindow = setmetatable({size = 10, recent = 0}, sliding)
local slidingLog = setmetatable({size = 26, recent = 8}, sliding)
local entrySize = 2 * word
local maxEntries = 64 -- open entries that become a block
local maxDropped = 4 -- blocks whose fields one request removes

-- stampOf returns the stamp of a request at now.
local function stampOf(l, now)
  if l.unit == 0 then
    return now
  end
  return now - now % l.unit + l.unit
end

local function countEntries(text)
  return #text / entrySize
end

-- entryAt returns the stamp and the count of an entry.
local function entryAt(text, i)
  return unpackWords(formats[2], text, entrySize * i + 1)
end

-- withEntry returns text with another entry at i, or with none there if count is 0.
local function withEntry(text, i, stamp, count)
  local entry = count > 0 and pack(formats[2], stamp, count) or ''
  return sub(text, 1, entrySize * i) .. entry .. sub(text, entrySize * (i + 1) + 1)
end

-- firstFrom returns the place of the first entry of a text whose stamp is at least stamp, or the number of entries if none is.
local function firstFrom(text, stamp)
  local low, high = 0, countEntries(text)
  while low < high do
    local middle = floorDiv(low + high, 2)
    if entryAt(text, middle) < stamp then
      low = middle + 1
    else
      high = middle
    end
  end
  return low
end

-- hasStored reports whether there are entries that the record does not have.
local function hasStored(w, o)
  local sum = w[o + 5]
  for at = o + 11, o + 9 + 2 * w[o + 9], 2 do
    sum = sum + w[at]
  end
  return w[o + 7] > 0 or sum < w[o + 1]
end

-- textsOf returns the texts of the record at o, and reads them if no one has. The recent entries are the last open ones
-- there. If texts are lost, the newest entry counts for them.
local function textsOf(w, o, l)
  local q = w[-l.kind]
  hasTexts = true
  if q then
    return q
  end
  local pair, size, isStored = l.pair, entrySize * w[o + 7], hasStored(w, o)
  local value = isStored and call('HGET', pair.key, l.name) or ''
  if #value < size or #value % entrySize > 0 then
    value = ''
  end
  if isStored and value == '' then
    repaired, pair.dirty = repaired + 1, true
    w[o + 3], w[o + 5], w[o + 7], w[o + 9] = w[o + 4], w[o + 1], 0, 0
  end
  local recent = textOf({unpack(w, o + 10, o + 9 + 2 * w[o + 9])}, 2 * w[o + 9])
  q = {
    list = sub(value, 1, size), open = sub(value, size + 1) .. recent, blocks = {}, changed = {}, name = l.name, stored = isStored,
    dirty = recent ~= '',
  }
  w[-l.kind], w[o + 9] = q, 0
  return q
end

-- fieldOf returns the name of the field of a block.
local function fieldOf(name, number)
  return name .. ':' .. format('%d', number)
end

-- readBlock returns the entries of block i. Those of a block that has been lost count as one.
local function readBlock(w, o, l, q, i)
  local number = w[o + 6] + i
  local text = q.blocks[number]
  if not text then
    text = call('HGET', l.pair.key, fieldOf(l.name, number)) or ''
    if text == '' or #text % entrySize > 0 then
      text = sub(q.list, entrySize * i + 1, entrySize * (i + 1))
    end
    q.blocks[number] = text
  end
  return text
end

-- setBlock replaces the entries of block i by some of them. The stamp in the list stays. If there are none left, so does
-- the block, and it counts 0.
local function setBlock(w, o, q, i, text, sum)
  local stamp = entryAt(q.list, i)
  q.list = sub(q.list, 1, entrySize * i) .. pack(formats[2], stamp, sum) .. sub(q.list, entrySize * (i + 1) + 1)
  local number = w[o + 6] + i
  q.blocks[number], q.changed[number], q.dirty = text, true, true
end

-- setOldest sets the stamp of the oldest entry.
local function setOldest(w, o, l, q)
  while w[o + 7] > 0 do
    local _, sum = entryAt(q.list, 0)
    if sum > 0 then
      w[o + 3] = entryAt(readBlock(w, o, l, q, 0), 0)
      return
    end
    q.list, q.dirty = sub(q.list, entrySize + 1), true
    w[o + 6], w[o + 7] = w[o + 6] + 1, w[o + 7] - 1
  end
  w[o + 3] = q.open ~= '' and entryAt(q.open, 0) or w[o + 4]
end

-- clear forgets all entries. stored says whether some may be stored in another field.
local function clear(w, o, l, stored)
  local q = w[-l.kind]
  stored = stored or q and q.stored
  w[o + 6], w[o + 7] = w[o + 6] + w[o + 7], 0
  w[o + 1], w[o + 3], w[o + 4], w[o + 5], w[o + 9] = 0, 0, 0, 0, 0
  hasTexts = true
  w[-l.kind] = {list = '', open = '', blocks = {}, changed = {}, name = l.name, stored = stored, dirty = true}
end

-- dropFirst returns a text without the entries that no longer count at now, and the sum of their counts.
local function dropFirst(text, l, now)
  local i, n, sum = 0, countEntries(text), 0
  while i < n do
    local stamp, count = entryAt(text, i)
    if stamp + l.micros > now then
      break
    end
    i, sum = i + 1, sum + count
  end
  return sub(text, entrySize * i + 1), sum
end

-- drop forgets what no longer counts at now, which is at least one entry.
local function drop(w, o, l, now)
  if w[o + 4] + l.micros <= now then
    return clear(w, o, l, hasStored(w, o))
  end
  local q, ended, dropped = textsOf(w, o, l), 0, 0
  while ended < w[o + 7] do
    local stamp, sum = entryAt(q.list, ended)
    if stamp + l.micros > now then
      break
    end
    ended, dropped = ended + 1, dropped + sum
  end
  q.list = sub(q.list, entrySize * ended + 1)
  w[o + 6], w[o + 7] = w[o + 6] + ended, w[o + 7] - ended
  local sum
  if w[o + 7] > 0 then
    local _, all = entryAt(q.list, 0)
    local text = readBlock(w, o, l, q, 0)
    text, sum = dropFirst(text, l, now)
    if sum > 0 then
      setBlock(w, o, q, 0, text, max(0, all - sum))
    end
  else
    q.open, sum = dropFirst(q.open, l, now)
  end
  q.dirty = true
  w[o + 1] = max(w[o + 5], w[o + 1] - dropped - sum)
  setOldest(w, o, l, q)
end

-- push adds an entry that is newer than all others.
local function push(w, o, l, stamp, count)
  if w[o + 5] == 0 then
    w[o + 3] = stamp
  elseif not w[-l.kind] and w[o + 9] < l.algorithm.recent then
    local at = o + 10 + 2 * w[o + 9]
    w[at], w[at + 1], w[o + 9] = w[o + 4], w[o + 5], w[o + 9] + 1
  else
    local q = textsOf(w, o, l)
    local count = countEntries(q.open)
    if count >= maxEntries then
      local sum, text = 0, sub(q.open, 1, entrySize * maxEntries)
      for i = 0, maxEntries - 1 do
        local _, n = entryAt(text, i)
        sum = sum + n
      end
      q.list = q.list .. pack(formats[2], entryAt(text, maxEntries - 1), sum)
      w[o + 7] = w[o + 7] + 1
      setBlock(w, o, q, w[o + 7] - 1, text, sum)
      q.open = sub(q.open, entrySize * maxEntries + 1)
    end
    q.open, q.dirty = q.open .. pack(formats[2], w[o + 4], w[o + 5]), true
  end
  w[o + 4], w[o + 5] = stamp, count
end

-- pop removes the newest entry.
local function pop(w, o, l)
  local q = textsOf(w, o, l)
  while q.open == '' and w[o + 7] > 0 do
    local _, sum = entryAt(q.list, w[o + 7] - 1)
    q.open = sum > 0 and readBlock(w, o, l, q, w[o + 7] - 1) or '' -- all entries of a block may have been refunded
    w[o + 7] = w[o + 7] - 1
    q.list = sub(q.list, 1, entrySize * w[o + 7])
  end
  q.dirty = true
  if q.open == '' then
    w[o + 3], w[o + 4], w[o + 5] = 0, 0, 0
  else
    local last = countEntries(q.open) - 1
    w[o + 4], w[o + 5] = entryAt(q.open, last)
    q.open = sub(q.open, 1, entrySize * last)
  end
end

-- lower makes stamps that are later than limit that one; the newest is.
local function lower(w, o, l, limit)
  local merged = 0
  while w[o + 5] > 0 and w[o + 4] >= limit do
    merged = merged + w[o + 5]
    pop(w, o, l)
  end
  push(w, o, l, limit, merged)
end

-- load brings the state to now, and reports whether it must be stored even if nothing is charged: because a stamp that
-- is later than now by more than the widest sub-bucket shows that the clock went back. It becomes the latest one that a
-- request now can get.
function sliding.load(w, o, l, now)
  local changed = anyRare and advanceGrants(w, o, l.algorithm.size, now, now + l.micros)
  if w[o + 8] < w[o + 6] then -- fields of blocks that have ended
    hasTexts = true
  end
  if w[o + 5] == 0 then
    return changed
  elseif w[o + 1] > maxExact or w[o + 5] > w[o + 1] or w[o + 3] > w[o + 4] or w[o + 2] > maxExact or w[o + 7] > maxExact or
    w[o + 8] > w[o + 6] or w[o + 9] > l.algorithm.recent then
    return repair(w, o, l, now)
  end
  if w[o + 3] + l.micros <= now then
    drop(w, o, l, now)
  end
  if w[o + 4] > now + w[o + 2] then
    lower(w, o, l, now + w[o + 2])
    return true
  end
  return changed
end

-- drainTo returns how long after now the count takes to shrink to target.
local function drainTo(w, o, l, now, target)
  local over, stamp = w[o + 1] - target, w[o + 4]
  if over <= 0 then
    return 0
  elseif over == 1 then -- each entry counts 1 at least
    stamp = w[o + 3]
  elseif over <= w[o + 1] - w[o + 5] then
    local q = textsOf(w, o, l)
    local text, i = q.open, 0
    for block = 0, w[o + 7] - 1 do
      local _, sum = entryAt(q.list, block)
      if sum >= over then
        text = readBlock(w, o, l, q, block)
        break
      end
      over = over - sum
    end
    while over > 0 and i < countEntries(text) do
      local count
      stamp, count = entryAt(text, i)
      over, i = over - count, i + 1
    end
  end
  return max(1, stamp + l.micros - now)
end

-- wait returns how long after now the limit admits cost, or -1 for never. The rate changes each time a grant ends.
function sliding.wait(w, o, l, now, cost)
  local target, from = l.rate - cost, 0
  if anyRare and l.rate > 0 then
    local at = o + l.algorithm.size
    target = target + grantOf(w, o, l.algorithm.size)
    while w[at] == grantKind do
      local left = w[at + 2] - now
      local wait = target < 0 and left or max(from, drainTo(w, o, l, now, target))
      if wait < left then
        return wait
      end
      target = target - countOf(w, at)
      from, at = left, at + grantSize
    end
  end
  if target < 0 then
    return -1
  end
  return max(from, drainTo(w, o, l, now, target))
end

-- grant adds n requests, which may be fewer than none, for one period.
function sliding.grant(w, o, l, now, n)
  sliding.load(w, o, l, now)
  addGrant(w, o, l.algorithm.size, n, now + l.micros)
end

-- widen has the state know the width of the sub-buckets of l, by which requests at now or holds that end are stamped.
local function widen(w, o, l)
  if w[o + 5] == 0 or l.unit > w[o + 2] then
    w[o + 2] = l.unit
  end
end

-- keep has the state say how it is charged when a hold ends.
function sliding.keep(w, o, l, now)
  sliding.load(w, o, l, now)
  widen(w, o, l)
end

-- charge adds cost, even if it does not fit. What stands in a sub-bucket wider than l's counts as if made now from then on.
function sliding.charge(w, o, l, now, cost)
  local stamp = stampOf(l, now)
  widen(w, o, l)
  if w[o + 4] > stamp then
    lower(w, o, l, stamp)
  end
  if cost > maxExact - w[o + 1] then
    cost = maxExact - w[o + 1]
  end
  if w[o + 4] == stamp then
    w[o + 5] = w[o + 5] + cost
  elseif cost > 0 then
    push(w, o, l, stamp, cost)
  end
  w[o + 1] = w[o + 1] + cost
  return w[o + 4] + l.micros
end

-- finish charges what ended holds become, a list of instants and costs.
function sliding.finish(w, o, l, held, _, ended)
  for n = 1, #ended, 2 do
    sliding.load(w, o, l, ended[n])
    if held or w[o + 1] > 0 then
      sliding.charge(w, o, l, ended[n], ended[n + 1])
    end
  end
end

-- refund takes back a charge of cost at an earlier instant, if it still counts. The work does not depend on how much was charged
-- since.
function sliding.refund(w, o, l, _, at, cost)
  local stamp = stampOf(l, at)
  if w[o + 5] == 0 or stamp < w[o + 3] or stamp > w[o + 4] or w[o + 9] > l.algorithm.recent then -- or load repairs it
    return
  end
  local refunded
  if stamp == w[o + 4] then
    refunded = min(cost, w[o + 5])
    if refunded == w[o + 5] then
      pop(w, o, l)
    else
      w[o + 5] = w[o + 5] - refunded
    end
  else
    local q = textsOf(w, o, l)
    local block = firstFrom(q.list, stamp)
    local text = block < w[o + 7] and readBlock(w, o, l, q, block) or q.open
    local i = firstFrom(text, stamp)
    local found, count = nil, 0
    if i < countEntries(text) then
      found, count = entryAt(text, i)
    end
    if found ~= stamp then
      return
    end
    refunded = min(cost, count)
    text, q.dirty = withEntry(text, i, stamp, count - refunded), true
    if block < w[o + 7] then
      local _, sum = entryAt(q.list, block)
      setBlock(w, o, q, block, text, sum - refunded)
    else
      q.open = text
    end
    if refunded == count and stamp == w[o + 3] then
      setOldest(w, o, l, q)
    end
  end
  w[o + 1] = max(0, w[o + 1] - refunded)
end

-- report returns what is used, and the waits for one more request and for all.
function sliding.report(w, o, l, now)
  local used, granted = w[o + 1], anyRare and grantOf(w, o, l.algorithm.size) or 0
  local remaining, reset = max(0, l.rate + granted - used), used > 0 and w[o + 4] + l.micros - now or 0
  if l.rate == 0 or used == 0 and remaining > 0 then
    return used, 0, 0
  elseif granted == 0 and used <= l.rate and not anyRare then
    return used, w[o + 3] + l.micros - now, reset
  end
  local refill = sliding.wait(w, o, l, now, remaining + 1)
  if remaining == 0 then
    return used, refill, max(refill, reset)
  end
  return used, refill < 0 and reset or min(refill, reset), reset
end

-- ends returns the instant at which the state no longer matters, also if more is charged at an instant.
function sliding.ends(w, o, l, at)
  local ends = (at and stampOf(l, at) or w[o + 4]) + l.micros
  local grant = o + l.algorithm.size
  while anyRare and w[grant] == grantKind do
    ends, grant = max(ends, w[grant + 2]), grant + grantSize
  end
  return ends
end

function sliding.empty(w, o, l, stale)
  for i = o + 1, o + l.algorithm.size - 1 do
    w[i] = 0
  end
  w[o], w[o + 2], w[o + 6], w[o + 8] = l.kind, l.unit, 1, 1
  if stale then -- fields of an earlier record may be left
    clear(w, o, l, true)
  end
end

sliding.forget = sliding.empty

function sliding.fill(w, o, l, now)
  sliding.empty(w, o, l, true)
  if l.rate > 0 then
    sliding.charge(w, o, l, now, l.rate)
  end
end

function sliding.limitOf(w, o)
  return {micros = floorDiv(w[o], 16), unit = w[o + 2], rate = 0}
end

-- save adds the texts of the record at o that have changed to the command that stores the pair at key, and returns
-- that. If there are at most recent open entries, they go to the record instead. It also removes some of the blocks whose entries have all ended.
function sliding.save(w, o, key, command, recent)
  local kind = kindOf(w, o)
  local q = w[-kind]
  for _ = 1, min(maxDropped, w[o + 6] - w[o + 8]) do
    call('HDEL', key, fieldOf(format('%d', kind), w[o + 8]))
    w[o + 8] = w[o + 8] + 1
  end
  if not q or not q.dirty then
    return command
  end
  local count = countEntries(q.open)
  if q.list == '' and count <= recent then
    w[o + 9] = count
    for i = 0, count - 1 do
      w[o + 10 + 2 * i], w[o + 11 + 2 * i] = entryAt(q.open, i)
    end
    if q.stored then
      call('HDEL', key, q.name)
    end
    return command
  end
  command = command or {'HSET', key, 's', ''}
  local n = #command
  command[n + 1], command[n + 2] = q.name, q.list .. q.open
  for number in pairs(q.changed) do
    if number >= w[o + 6] and number < w[o + 6] + w[o + 7] then
      n = n + 2
      command[n + 1], command[n + 2] = fieldOf(q.name, number), q.blocks[number]
    end
  end
  return command
end

-- discard removes what is stored beside the record: its fields and its grants. It asks the server for the fields, because a
-- corrupt record may name far too many blocks.
function sliding.discard(w, o, l)
  local key, blocks = l.pair.key, l.name .. ':'
  removeGrants(w, o, l.algorithm.size)
  for _, field in ipairs(call('HKEYS', key)) do
    if field == l.name or sub(field, 1, #blocks) == blocks then
      call('HDEL', key, field)
    end
  end
end
