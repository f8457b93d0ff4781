package cluster

import "time"

// Bounds on the resources that another process can use here.
const (
	minToken      = 16               // bytes of a token file, without white space at its ends
	maxToken      = 4096             // bytes
	maxRanks      = 4096             // of one group
	maxHead       = 1 << 20          // bytes of a message's head
	maxBody       = 1 << 31          // bytes of a message's body: the texts of the largest batch take 1.3e9
	maxCause      = 1 << 10          // bytes of the cause in an abort frame
	maxUnproven   = 256              // connections that have not proved the token yet
	maxWaiting    = 1 << 12          // connections of ranks whose group was not joined here yet
	dialTime      = 10 * time.Second // for a host to answer
	firstByteTime = 5 * time.Second  // for a connection to send its first byte
	crowdedTime   = 10 * time.Second // for a connection that has sent something to prove the token, while others wait
	crowdedPause  = 50 * time.Millisecond
	handshakeTime = time.Minute      // for a connection to prove the token; long, because hundreds may connect while all cores compute
	beatEvery     = 2 * time.Second  // between heartbeats
	silence       = 20 * time.Second // without a byte, after which a called process counts as stopped
	writeSize     = 1 << 18          // bytes that it must accept within that time
	waitingTime   = time.Minute      // for a waiting connection until its rank joins
	maxReasons    = 16               // recorded reasons for groups that are not linked
	abortTime     = time.Second      // to tell a peer why the group ends
	linkTime      = 30 * time.Second // for the devices of a group to connect, within the time for joining
)
