package redisx

// slots is the number of hash slots of a Redis Cluster.
const slots = 16384

// slotOf returns the hash slot of a hash tag: its CRC-16/XMODEM modulo the number of slots.
// See https://redis.io/docs/latest/operate/oss_and_stack/reference/cluster-spec/#key-distribution-model.
func slotOf(tag string) int {
	var crc uint16
	for i := range len(tag) {
		crc ^= uint16(tag[i]) << 8
		for range 8 {
			if crc&0x8000 != 0 {
				crc = crc<<1 ^ 0x1021
			} else {
				crc <<= 1
			}
		}
	}
	return int(crc) % slots
}
