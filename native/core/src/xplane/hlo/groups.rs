//! The groups of devices that an instruction communicates in.

use crate::xplane::protobuf::{Fields, Malformed, Value, packed};
use crate::xplane::schema::{collective_device_list, iota_replica_group_list, replica_group};

/// Devices of a program; more come from a made-up list of groups.
const MAX_DEVICES: i64 = 1 << 14;

/// Replica groups as they are listed, or as an iota: `[groups, size]<=[dims]T(perm)`.
pub fn device_list(bytes: &[u8], origin: u64) -> Result<Vec<Vec<i64>>, Malformed> {
    let mut groups = Vec::new();
    for field in Fields::new(bytes, origin) {
        match field? {
            (collective_device_list::REPLICA_GROUPS, Value::Bytes(group)) => groups.push(members(group, origin)?),
            (collective_device_list::IOTA_REPLICA_GROUP_LIST, Value::Bytes(iota)) => return iota_groups(iota, origin),
            _ => {}
        }
    }
    Ok(groups)
}

pub fn members(bytes: &[u8], origin: u64) -> Result<Vec<i64>, Malformed> {
    let mut found = Vec::new();
    for field in Fields::new(bytes, origin) {
        if let (replica_group::REPLICA_IDS, value) = field? {
            packed(value, &mut found);
        }
    }
    Ok(found)
}

fn iota_groups(bytes: &[u8], origin: u64) -> Result<Vec<Vec<i64>>, Malformed> {
    let (mut count, mut size) = (0, 0);
    let (mut dims, mut perm) = (Vec::new(), Vec::new());
    for field in Fields::new(bytes, origin) {
        match field? {
            (iota_replica_group_list::NUM_REPLICA_GROUPS, Value::Varint(number)) => count = number as i64,
            (iota_replica_group_list::NUM_DEVICES_PER_GROUP, Value::Varint(number)) => size = number as i64,
            (iota_replica_group_list::IOTA_RESHAPE_DIMS, value) => packed(value, &mut dims),
            (iota_replica_group_list::IOTA_TRANSPOSE_PERM, value) => packed(value, &mut perm),
            _ => {}
        }
    }
    Ok(iota(count, size, &dims, &perm))
}

/// The groups an iota stands for; none if it makes no sense.
fn iota(count: i64, size: i64, dims: &[i64], perm: &[i64]) -> Vec<Vec<i64>> {
    let total = dims.iter().try_fold(1i64, |product, &dim| product.checked_mul(dim)).unwrap_or(0);
    let is_sound = (1..=MAX_DEVICES).contains(&total) && dims.iter().all(|&dim| dim > 0);
    if !is_sound || count < 1 || count.checked_mul(size) != Some(total) {
        return Vec::new();
    }
    let natural: Vec<i64> = (0..dims.len() as i64).collect();
    let perm = if perm.is_empty() { &natural[..] } else { perm };
    let mut sorted = perm.to_vec();
    sorted.sort_unstable();
    if sorted != natural {
        return Vec::new();
    }
    let stride = |axis: usize| dims[axis + 1..].iter().product::<i64>();
    let devices: Vec<i64> = (0..total)
        .map(|mut at| {
            let mut device = 0;
            for &axis in perm.iter().rev() {
                let dim = dims[axis as usize];
                device += at % dim * stride(axis as usize);
                at /= dim;
            }
            device
        })
        .collect();
    devices.chunks(size as usize).map(<[i64]>::to_vec).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_iota_of_groups_is_written_out() {
        assert_eq!(iota(2, 2, &[4], &[]), [[0, 1], [2, 3]]);
        assert_eq!(iota(4, 2, &[2, 4], &[1, 0]), [[0, 4], [1, 5], [2, 6], [3, 7]]);
    }

    #[test]
    fn an_iota_that_makes_no_sense_has_no_groups() {
        assert!(iota(2, 2, &[5], &[]).is_empty());
        assert!(iota(1, 4, &[2, 2], &[0, 0]).is_empty());
        assert!(iota(1, i64::MAX, &[i64::MAX], &[]).is_empty());
        assert!(iota(i64::MAX, 2, &[2], &[]).is_empty());
    }
}
