-- The state of a SlidingWindow or a SlidingLog: how much was admitted with which stamp, oldest first. A SlidingLog
-- stamps a request with its instant, a SlidingWindow with the end of its sub-bucket; both count it until one period
-- later. Mirrors internal/algorithm.
-- Uses ceilDiv, floorTo, max, maxExact, min (number), pack, sub, unpackWords, word (word), appendEntry, blockAt,
-- blockSize, blocks, entries, entryAt, entrySize, firstFrom, readBlock, removeBlock, setBlock, storeBlocks,
-- takeLastBlock, withCount (block).
--
-- A state has three words, the expiry of its key (see pair.lua), used and the number of full blocks, then the list of those
-- blocks, and then the newest entries: see block.lua. A decision works on the texts and reads only the entries it needs. No
-- change is kept unless the state is stored.
local sliding = {}

-- stamp returns the stamp of a request at now.
local function stamp(l, now)
  if l.unit == 0 then
    return now
  end
  return floorTo(now, l.unit) + l.unit
end

-- lastStamp returns the stamp of the newest entry of q, or 0 if there is none.
local function lastStamp(q)
  if q.newest == '' then
    return 0
  end
  return (entryAt(q.newest, entries(q.newest) - 1))
end

-- dropFirst removes the entries of a text that no longer count at now, and returns the rest and the sum of their counts.
local function dropFirst(text, l, now)
  local i, n, sum = 0, entries(text), 0
  while i < n do
    local stamp, count = entryAt(text, i)
    if stamp + l.micros > now then
      break
    end
    i, sum = i + 1, sum + count
  end
  return sub(text, entrySize * i + 1), sum
end

-- advance drops from q what no longer counts at now.
function sliding.advance(q, l, now)
  while q.list ~= '' do
    local stamp, number, sum = blockAt(q.list, 0)
    if stamp + l.micros > now then
      local text, dead = dropFirst(readBlock(q, 0), l, now)
      if dead > 0 then
        setBlock(q, 0, text, sum - dead)
        q.used = max(0, q.used - dead)
      end
      return q
    end
    removeBlock(q, 0)
    q.used = max(0, q.used - sum)
  end
  local dead
  q.newest, dead = dropFirst(q.newest, l, now)
  q.used = q.newest == '' and 0 or max(0, q.used - dead)
  return q
end

-- popNewest removes the newest entry of q and returns its count.
local function popNewest(q)
  local at = #q.newest - entrySize
  local _, count = entryAt(q.newest, at / entrySize)
  q.newest = sub(q.newest, 1, at)
  takeLastBlock(q)
  return count
end

-- lower makes stamps of q that are later than limit that one; the newest is.
local function lower(q, limit)
  local merged = 0
  while q.newest ~= '' and lastStamp(q) >= limit do
    merged = merged + popNewest(q)
  end
  appendEntry(q, limit, merged)
  return q
end

-- rewind returns q after the clock went back to now, or nil if it did not. No sub-bucket is wider than half a period.
function sliding.rewind(q, l, now)
  local latest = l.unit == 0 and now or now + ceilDiv(l.micros, 2)
  if lastStamp(q) > latest then
    return lower(q, stamp(l, now))
  end
end

-- drainTo returns how long after now an advanced q takes to shrink to target. An entry of a wider sub-bucket than that of l
-- counts as if made now.
local function drainTo(q, l, now, target)
  local over = q.used - target
  if over <= 0 then
    return 0
  end
  local text = q.newest
  for i = 0, blocks(q) - 1 do
    local _, _, sum = blockAt(q.list, i)
    if sum >= over then
      text = readBlock(q, i)
      break
    end
    over = over - sum
  end
  local latest, i = 0, 0
  while over > 0 and i < entries(text) do
    local stamp, count = entryAt(text, i)
    latest, over, i = max(latest, stamp), over - count, i + 1
  end
  return max(1, min(latest, stamp(l, now)) + l.micros - now)
end

-- wait returns how long after now an advanced q admits cost, which is at most the rate.
function sliding.wait(q, l, now, cost)
  return drainTo(q, l, now, l.rate - cost)
end

-- charge adds cost to an advanced q.
function sliding.charge(q, l, now, cost)
  local newest = stamp(l, now)
  if lastStamp(q) > newest then
    lower(q, newest)
  end
  q.used = min(q.used + cost, maxExact)
  if lastStamp(q) == newest then
    local last = entries(q.newest) - 1
    local _, count = entryAt(q.newest, last)
    q.newest = withCount(q.newest, last, newest, count + cost)
  else
    appendEntry(q, newest, cost)
  end
  return q
end

-- refund removes from q, advanced or not, a charge of cost at an earlier instant, if that still counts. The work does not
-- depend on how much was charged since.
function sliding.refund(q, l, _, at, cost)
  local wanted = stamp(l, at)
  local place = firstFrom(q.list, blockSize, wanted)
  local text = place < blocks(q) and readBlock(q, place) or q.newest
  local i = firstFrom(text, entrySize, wanted)
  if i == entries(text) then
    return q
  end
  local stamp, count = entryAt(text, i)
  if stamp ~= wanted then
    return q
  end
  local refunded = min(count, cost)
  text = withCount(text, i, stamp, count - refunded)
  q.used = q.used - refunded
  if place < blocks(q) then
    local _, _, sum = blockAt(q.list, place)
    setBlock(q, place, text, sum - refunded)
  else
    q.newest = text
    takeLastBlock(q)
  end
  return q
end

-- report returns what an advanced q leaves: remaining, refill, reset.
function sliding.report(q, l, now)
  local remaining = max(0, l.rate - q.used)
  if remaining == l.rate then
    return remaining, 0, 0
  end
  local refill = drainTo(q, l, now, l.rate - remaining - 1)
  return remaining, refill, max(refill, min(lastStamp(q), stamp(l, now)) + l.micros - now)
end

-- ends returns when q no longer matters.
function sliding.ends(q, l)
  return lastStamp(q) + l.micros
end

function sliding.decode(s, l, pair)
  if #s < 3 * word then
    return nil
  end
  local _, used, n = unpackWords('<I8I8I8', s)
  local first = 3 * word + n * blockSize
  if used <= maxExact and n <= maxExact and #s >= first and (#s - first) % entrySize == 0 then
    return {
      used = used, list = sub(s, 3 * word + 1, first), newest = sub(s, first + 1), pair = pair, name = l.name, texts = {}, changed = {},
    }
  end
end

function sliding.encode(q, expires)
  storeBlocks(q, expires)
  return pack('<I8I8I8', expires, q.used, blocks(q)) .. q.list .. q.newest
end

function sliding.empty(l, pair)
  return {used = 0, list = '', newest = '', pair = pair, name = l.name, texts = {}, changed = {}}
end

function sliding.full(l, now, pair)
  local q = sliding.empty(l, pair)
  if l.rate > 0 then
    appendEntry(q, stamp(l, now), l.rate)
    q.used = l.rate
  end
  return q
end
