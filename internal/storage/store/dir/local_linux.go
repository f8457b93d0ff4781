package dir

import (
	"fmt"

	"golang.org/x/sys/unix"
)

// localTypes are the file systems of a single host, by statfs number. Their locks are valid for all writers.
var localTypes = map[int64]string{
	unix.EXT4_SUPER_MAGIC: "ext4", unix.XFS_SUPER_MAGIC: "xfs", unix.BTRFS_SUPER_MAGIC: "btrfs", unix.TMPFS_MAGIC: "tmpfs",
	unix.RAMFS_MAGIC: "ramfs", unix.OVERLAYFS_SUPER_MAGIC: "overlayfs", unix.F2FS_SUPER_MAGIC: "f2fs", 0x2fc12fc1: "zfs",
	0xca451a4e: "bcachefs", unix.REISERFS_SUPER_MAGIC: "reiserfs", 0x3153464a: "jfs", unix.NILFS_SUPER_MAGIC: "nilfs2",
	unix.MSDOS_SUPER_MAGIC: "vfat", unix.EXFAT_SUPER_MAGIC: "exfat", 0x7366746e: "ntfs3", unix.ECRYPTFS_SUPER_MAGIC: "ecryptfs",
	unix.HUGETLBFS_MAGIC: "hugetlbfs",
}

// sharedTypes are the names of file systems that several hosts may have mounted.
var sharedTypes = map[int64]string{
	unix.NFS_SUPER_MAGIC: "NFS", unix.FUSE_SUPER_MAGIC: "FUSE", unix.CIFS_SUPER_MAGIC: "SMB", unix.SMB2_SUPER_MAGIC: "SMB",
	unix.SMB_SUPER_MAGIC: "SMB", unix.CEPH_SUPER_MAGIC: "CephFS", unix.V9FS_MAGIC: "9p", 0x0bd00bd0: "Lustre", 0x47504653: "GPFS",
	0x19830326: "BeeGFS", unix.AFS_SUPER_MAGIC: "AFS", 0x01161970: "GFS2", unix.OCFS2_SUPER_MAGIC: "OCFS2", 0x65735543: "FUSE",
}

// FileSystem returns the name of the directory's file system, and whether it belongs to this host only.
func (d *Dir) FileSystem() (name string, local bool) {
	var s unix.Statfs_t
	if err := unix.Statfs(d.path, &s); err != nil {
		return "unknown", false
	}
	kind := int64(uint32(s.Type))
	if name, local = localTypes[kind]; local {
		return name, true
	}
	if name, known := sharedTypes[kind]; known {
		return name, false
	}
	return fmt.Sprintf("%#x", kind), false
}
