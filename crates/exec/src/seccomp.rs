//! The filter on system calls: those that a job has no use for and that attack a kernel answer
//! «not permitted».
//!
//! A list of what is refused, not of what is allowed: scripts run anything, and a new call of
//! a new C library must not break them. What the list cannot see is closed by the prefix: the
//! second numbering of x86-64 (x32), and `clone3`, whose flags a filter cannot read. Both answer
//! «not implemented», which makes C libraries use the call that the filter reads.

use std::collections::BTreeMap;
use std::io;

use seccompiler::{
    BpfProgram, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompFilter, SeccompRule, TargetArch,
};

const EPERM: u32 = 1;
const ENOSYS: u32 = 38;
/// `SECCOMP_RET_ERRNO`.
const RETURN_ERRNO: u32 = 0x0005_0000;
/// Set in the number of a call of the x32 kind.
const X32: u32 = 0x4000_0000;

const LOAD_WORD: u16 = 0x20;
const JUMP_IF_AT_LEAST: u16 = 0x35;
const JUMP_IF_EQUAL: u16 = 0x15;
const RETURN: u16 = 0x06;

/// Calls that are refused whatever their arguments.
const REFUSED: &[i64] = &[
    // Mounts and roots.
    libc::SYS_mount,
    libc::SYS_umount2,
    libc::SYS_pivot_root,
    libc::SYS_chroot,
    libc::SYS_open_tree,
    libc::SYS_move_mount,
    libc::SYS_fsopen,
    libc::SYS_fsconfig,
    libc::SYS_fsmount,
    libc::SYS_fspick,
    libc::SYS_mount_setattr,
    libc::SYS_swapon,
    libc::SYS_swapoff,
    libc::SYS_quotactl,
    libc::SYS_open_by_handle_at,
    libc::SYS_name_to_handle_at,
    // Namespaces; `clone` is looked at below.
    libc::SYS_unshare,
    libc::SYS_setns,
    // Other processes.
    libc::SYS_ptrace,
    libc::SYS_process_vm_readv,
    libc::SYS_process_vm_writev,
    libc::SYS_kcmp,
    // The kernel itself.
    libc::SYS_bpf,
    libc::SYS_perf_event_open,
    libc::SYS_userfaultfd,
    libc::SYS_io_uring_setup,
    libc::SYS_io_uring_enter,
    libc::SYS_io_uring_register,
    libc::SYS_init_module,
    libc::SYS_finit_module,
    libc::SYS_delete_module,
    libc::SYS_kexec_load,
    libc::SYS_reboot,
    libc::SYS_syslog,
    libc::SYS_acct,
    libc::SYS_lookup_dcookie,
    libc::SYS_vhangup,
    // Keys belong to a user of the machine, not to a namespace.
    libc::SYS_keyctl,
    libc::SYS_add_key,
    libc::SYS_request_key,
    // The clock and the name of the machine.
    libc::SYS_settimeofday,
    libc::SYS_clock_settime,
    libc::SYS_clock_adjtime,
    libc::SYS_adjtimex,
    libc::SYS_sethostname,
    libc::SYS_setdomainname,
];

#[cfg(target_arch = "x86_64")]
const REFUSED_HERE: &[i64] =
    &[libc::SYS_kexec_file_load, libc::SYS_iopl, libc::SYS_ioperm, libc::SYS_modify_ldt, libc::SYS_uselib];
#[cfg(not(target_arch = "x86_64"))]
const REFUSED_HERE: &[i64] = &[];

/// New namespaces by `clone`, each flag on its own.
const NAMESPACE_FLAGS: [i32; 7] = [
    libc::CLONE_NEWUSER,
    libc::CLONE_NEWNS,
    libc::CLONE_NEWPID,
    libc::CLONE_NEWNET,
    libc::CLONE_NEWIPC,
    libc::CLONE_NEWUTS,
    libc::CLONE_NEWCGROUP,
];

/// `TIOCSTI` types into a terminal, `TIOCLINUX` pastes into a console.
const REFUSED_IOCTLS: [u64; 2] = [0x5412, 0x541c];

/// The program as the kernel reads it, or why there is none for this machine.
pub(crate) fn filter() -> Result<Vec<u8>, String> {
    let architecture = TargetArch::try_from(std::env::consts::ARCH)
        .map_err(|_| format!("there is no filter of system calls for {}", std::env::consts::ARCH))?;
    let program = build_program(architecture).map_err(|error| format!("the filter of system calls: {error}"))?;
    let clone3 = u32::try_from(libc::SYS_clone3).map_err(io::Error::other).map_err(|error| error.to_string())?;
    let mut bytes = Vec::new();
    for (code, on_true, on_false, value) in [
        (LOAD_WORD, 0, 0, 0),
        (JUMP_IF_AT_LEAST, 1, 0, X32),
        (JUMP_IF_EQUAL, 0, 1, clone3),
        (RETURN, 0, 0, RETURN_ERRNO | ENOSYS),
    ] {
        push_instruction(&mut bytes, code, on_true, on_false, value);
    }
    for step in &program {
        push_instruction(&mut bytes, step.code, step.jt, step.jf, step.k);
    }
    Ok(bytes)
}

fn build_program(architecture: TargetArch) -> Result<BpfProgram, seccompiler::BackendError> {
    let mut rules: BTreeMap<i64, Vec<SeccompRule>> =
        REFUSED.iter().chain(REFUSED_HERE).map(|call| (*call, Vec::new())).collect();
    let mut namespaces = Vec::new();
    for flag in NAMESPACE_FLAGS {
        let flag = u64::from(flag.unsigned_abs());
        let set = SeccompCondition::new(0, SeccompCmpArgLen::Qword, SeccompCmpOp::MaskedEq(flag), flag)?;
        namespaces.push(SeccompRule::new(vec![set])?);
    }
    rules.insert(libc::SYS_clone, namespaces);
    let mut ioctls = Vec::new();
    for request in REFUSED_IOCTLS {
        // The kernel looks at the lower half only; so must the filter.
        let same = SeccompCondition::new(1, SeccompCmpArgLen::Dword, SeccompCmpOp::Eq, request)?;
        ioctls.push(SeccompRule::new(vec![same])?);
    }
    rules.insert(libc::SYS_ioctl, ioctls);
    SeccompFilter::new(rules, SeccompAction::Allow, SeccompAction::Errno(EPERM), architecture)?.try_into()
}

fn push_instruction(bytes: &mut Vec<u8>, code: u16, on_true: u8, on_false: u8, value: u32) {
    bytes.extend(code.to_ne_bytes());
    bytes.extend([on_true, on_false]);
    bytes.extend(value.to_ne_bytes());
}

#[cfg(test)]
mod tests {
    #[test]
    fn the_filter_is_a_whole_number_of_instructions_within_the_kernels_limit() {
        let bytes = super::filter().expect("a filter for this machine");
        assert_eq!(bytes.len() % 8, 0);
        assert!((50..4096).contains(&(bytes.len() / 8)));
    }
}
