-- The states of the request that is being decided.
--
-- A plan has a table for each pair that its requests name. The table lists the limits of the pair, and each request of
-- the plan overwrites its fields. So a request allocates only one table for the words of each pair. The fields are:
--
--   key           the key of the pair
--   words, size   its words and their number: see pair.lua
--   dirty         whether the pair must be stored
--   last          the latest end of what the request has charged, held or banned, or 0
--
-- and what few pairs have:
--
--   holdAt, banAt, resetAt             the places of these records, or 0
--   heldCost, heldCount, bannedUntil   what is held, and until when the pair is banned
--   others                             the number of records of limits that the plan does not have
--
-- A record is known by a table of words and the place of its first word there: l.w and l.o of a limit l.
local current = nil -- the plan
local repaired = 0 -- states that made no sense
local hasTexts = false -- whether the texts of a sliding limit may have changed
local call, tryCall = redis.call, redis.pcall

-- anyRare is false if the pairs of the request have none of these rare records, anyOdd is false, and no claim is a peek,
-- a dry run or a hold.
local anyRare = false

-- anyOdd is false if no bucket has to be prepared before it drains: each has its own record, which makes sense and is not
-- from later than now, and knows only the rate and the ticks of its limit.
local anyOdd = false

-- clearRare forgets what the pairs of an earlier request of a plan had.
local function clearRare(plan)
  for _, pair in ipairs(plan.pairs) do
    pair.holdAt, pair.banAt, pair.resetAt, pair.heldCost, pair.heldCount = 0, 0, 0, 0, 0
    pair.bannedUntil, pair.others = 0, 0
  end
end

-- pairOf returns the pair with these words.
local function pairOf(w)
  for _, pair in ipairs(current.pairs) do
    if pair.words == w then
      return pair
    end
  end
end

local places = {'holdAt', 'banAt', 'resetAt'} -- of records in a pair

-- resize inserts words before the one at from or, if by is negative, removes as many there, and moves the records behind.
local function resize(w, from, by)
  local pair = pairOf(w)
  local size = pair.size
  if by > 0 then
    for i = size, from, -1 do
      w[i + by] = w[i]
    end
  else
    for i = from - by, size - by do -- also clears what is behind
      w[i + by] = i <= size and w[i] or nil
    end
  end
  pair.size = size + by
  for _, l in ipairs(pair) do
    if l.w == w and l.o >= from then
      l.o = l.o + by
    end
  end
  for _, field in ipairs(places) do
    if pair[field] >= from then
      pair[field] = pair[field] + by
    end
  end
end

-- addRecord adds a record of two words to a pair, and returns its place.
local function addRecord(pair, kind, number)
  local w, o = pair.words, pair.size + 1
  w[o], w[o + 1], pair.size, anyRare = kind, number, o + 1, true
  return o
end

-- repair makes the record at o, which makes no sense, one of a limit that is just used up: that neither admits anew nor
-- denies for ever. It returns true, because this must be stored.
local function repair(w, o, l, now)
  repaired = repaired + 1
  l.algorithm.fill(w, o, l, now)
  return true
end

local heldMark = 1 -- see pair.lua

-- isHeld reports whether the record at o, which is a limit's, is of one that a held claim has named.
local function isHeld(w, o)
  return w[o] % 2 == heldMark
end

-- kindOf returns the kind of the record at o without its mark.
local function kindOf(w, o)
  return isHeld(w, o) and w[o] - heldMark or w[o]
end
