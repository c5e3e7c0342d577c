-- What a pair holds for requests in flight. Mirrors internal/algorithm.
--
-- The words of its record: the number of its cells (+1), the longest ban of a limit that was held (+2), and for each
-- cell, oldest first, its start, and the cost and the number of the requests held in it. A cell is 6 s wide and ends 66
-- s after its start: what it then still holds is charged.
local holdKind, holdSize, cellSize = 0, 3, 3
local holdWidth, holdLife = 6000000, 66000000
local hint = 1000000 -- the wait that is reported where only holds are in the way

-- lastCell returns the place of the newest cell of the record at o.
local function lastCell(w, o)
  return o + holdSize + cellSize * (w[o + 1] - 1)
end

-- sumHolds sums up what the pair holds.
local function sumHolds(pair)
  local w, o, cost, count = pair.words, pair.holdAt, 0, 0
  for cell = o + holdSize, o > 0 and lastCell(w, o) or 0, cellSize do
    cost, count = cost + w[cell + 1], count + w[cell + 2]
  end
  pair.heldCost, pair.heldCount = min(cost, maxExact), count
end

-- addHold holds cost from now on, for count requests.
local function addHold(pair, now, cost, count)
  local w, start = pair.words, now - now % holdWidth
  if pair.holdAt == 0 then
    pair.holdAt = addRecord(pair, holdKind, 0)
    resize(w, pair.holdAt + 2, 1)
    w[pair.holdAt + 2] = 0
  end
  local o = pair.holdAt
  local cell = lastCell(w, o)
  if w[o + 1] == 0 or w[cell] < start then
    cell = cell + cellSize
    resize(w, cell, cellSize)
    w[o + 1], w[cell], w[cell + 1], w[cell + 2] = w[o + 1] + 1, start, 0, 0
  end
  w[cell + 1], w[cell + 2] = min(w[cell + 1] + cost, maxExact), w[cell + 2] + count
  pair.heldCost, pair.heldCount, pair.dirty = min(pair.heldCost + cost, maxExact), pair.heldCount + count, true
end

-- removeCell removes a cell, and the record if that was its last one.
local function removeCell(pair, cell)
  local w, o = pair.words, pair.holdAt
  resize(w, cell, -cellSize)
  w[o + 1] = w[o + 1] - 1
  if w[o + 1] == 0 then
    pair.holdAt = 0
    resize(w, o, -holdSize)
  end
  pair.dirty = true
end

-- releaseHold ends a hold of cost made at an instant, and returns how much it held, or nil if it has ended. A hold that
-- is later than all takes from the latest: the clock went back since.
local function releaseHold(pair, at, cost)
  local w, o = pair.words, pair.holdAt
  if o == 0 then
    return nil
  end
  local start = min(at - at % holdWidth, w[lastCell(w, o)])
  for cell = o + holdSize, lastCell(w, o), cellSize do
    if w[cell] == start then
      local released = min(cost, w[cell + 1])
      w[cell + 1], w[cell + 2] = w[cell + 1] - released, w[cell + 2] - 1
      if w[cell + 2] <= 0 then
        removeCell(pair, cell)
      end
      pair.dirty = true
      sumHolds(pair)
      return released
    end
  end
end

-- rewindHolds has holds that are from later, because the clock went back, count as made now.
local function rewindHolds(pair, now)
  local w, start, cost, count = pair.words, now - now % holdWidth, 0, 0
  while pair.holdAt > 0 do
    local cell = lastCell(w, pair.holdAt)
    if w[cell] <= start then
      break
    end
    cost, count = cost + w[cell + 1], count + w[cell + 2]
    removeCell(pair, cell)
  end
  if count > 0 then
    addHold(pair, now, cost, count)
  end
end
