-- The states of the request that is being decided, in tables that all requests use, by the place of a pair among the request's
-- pairs. So a request needs no table but one for the words of each pair.
--
-- A record is known by a table of words and the place of its first word there: l.w and l.o of a limit l.
local words, sizes = {}, {} -- the words of each pair, and their number: see pair.lua
local keys, stored = {}, {} -- the key of each pair, and whether anything is stored there
local dirty = {} -- whether a pair must be stored
local current = nil -- the plan
local repaired = 0 -- states that made no sense
local hasTexts = false -- whether the texts of a sliding limit may have changed
local call, tryCall = redis.call, redis.pcall

-- What few pairs have. If anyRare is false, no pair of the request has any of it, and the numbers here are 0; no bucket knows more than
-- the rate of its limit, and each state that is loaded is charged or stays as it is.
local anyRare = false
local holdAt, banAt, resetAt = {}, {}, {} -- the places of these records
local heldCost, heldCount, bannedUntil = {}, {}, {}
local others = {} -- the number of records of limits that the plan does not have
local lasts = {} -- when something ends that no limit of the plan says

-- clearRare forgets what some pairs of a request had.
local function clearRare(first, last)
  for place = first, last do
    holdAt[place], banAt[place], resetAt[place], heldCost[place], heldCount[place] = 0, 0, 0, 0, 0
    bannedUntil[place], others[place], lasts[place] = 0, 0, 0
  end
end

-- placeOf returns the place of the pair with these words.
local function placeOf(w)
  for place = 1, current.keys do
    if words[place] == w then
      return place
    end
  end
end

-- resize inserts words before the one at from or, if by is negative, removes as many there, and moves the records behind.
local function resize(w, from, by)
  local place = placeOf(w)
  local size = sizes[place]
  if by > 0 then
    for i = size, from, -1 do
      w[i + by] = w[i]
    end
  else
    for i = from - by, size - by do -- also clears what is behind
      w[i + by] = i <= size and w[i] or nil
    end
  end
  sizes[place] = size + by
  for _, l in ipairs(current.pairs[place]) do
    if l.w == w and l.o >= from then
      l.o = l.o + by
    end
  end
  for _, at in ipairs({holdAt, banAt, resetAt}) do
    if at[place] >= from then
      at[place] = at[place] + by
    end
  end
end

-- addRecord adds a record of two words to a pair, and returns its place.
local function addRecord(place, kind, number)
  local w, o = words[place], sizes[place] + 1
  w[o], w[o + 1], sizes[place], anyRare = kind, number, o + 1, true
  return o
end

-- repair makes the record at o, which makes no sense, one of a limit that is just used up: that neither admits anew nor denies for
-- ever. It returns true, because this must be stored.
local function repair(w, o, l, now)
  repaired = repaired + 1
  l.algorithm.fill(w, o, l, now)
  return true
end

local heldMark = 2 -- see pair.lua

-- isHeld reports whether the record at o is of a limit that a held claim has named.
local function isHeld(w, o)
  return w[o] % 4 == heldMark
end

-- kindOf returns the kind of the record at o without its mark.
local function kindOf(w, o)
  return isHeld(w, o) and w[o] - heldMark or w[o]
end
