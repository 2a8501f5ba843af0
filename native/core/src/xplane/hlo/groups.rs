//! The groups of devices that an instruction communicates in.

use crate::xplane::protobuf::{Fields, Malformed, Value, packed};
use crate::xplane::schema::{
    axis_ref, collective_device_list, iota_replica_group_list, iota_transform, mesh, mesh_axes_replica_group_list,
    mesh_axis, replica_group, sub_axis,
};

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

/// Replica groups as an iota.
pub fn iota_groups(bytes: &[u8], origin: u64) -> Result<Vec<Vec<i64>>, Malformed> {
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

/// Some or all of an axis of a mesh: what it is split into before, and how much of it belongs to a group.
#[derive(Clone, Copy)]
struct Axis {
    number: i64,
    part: Option<(i64, i64)>,
}

/// A mesh of devices: how many there are along each axis, and which, if they are not simply counted.
#[derive(Default)]
struct Mesh {
    dims: Vec<i64>,
    devices: Vec<i64>,
}

/// Replica groups as all devices of a mesh that differ in their places along some of its axes only.
pub fn mesh_groups(bytes: &[u8], origin: u64) -> Result<Vec<Vec<i64>>, Malformed> {
    let (mut of, mut axes) = (Mesh::default(), Vec::new());
    for field in Fields::new(bytes, origin) {
        match field? {
            (mesh_axes_replica_group_list::MESH, Value::Bytes(mesh)) => of = Mesh::read(mesh, origin)?,
            (mesh_axes_replica_group_list::AXES, Value::Bytes(axis)) => axes.push(Axis::read(axis, origin)?),
            _ => {}
        }
    }
    Ok(along(&of, &axes).unwrap_or_default())
}

impl Axis {
    fn read(bytes: &[u8], origin: u64) -> Result<Self, Malformed> {
        let mut axis = Self { number: 0, part: None };
        for field in Fields::new(bytes, origin) {
            match field? {
                (axis_ref::MESH_AXIS_INDEX, Value::Varint(number)) => axis.number = number as i64,
                (axis_ref::SUB_AXIS_INFO, Value::Bytes(part)) => axis.part = Some(Self::part(part, origin)?),
                _ => {}
            }
        }
        Ok(axis)
    }

    fn part(bytes: &[u8], origin: u64) -> Result<(i64, i64), Malformed> {
        let (mut before, mut size) = (0, 0);
        for field in Fields::new(bytes, origin) {
            match field? {
                (sub_axis::PRE_SIZE, Value::Varint(number)) => before = number as i64,
                (sub_axis::SIZE, Value::Varint(number)) => size = number as i64,
                _ => {}
            }
        }
        Ok((before, size))
    }
}

impl Mesh {
    fn read(bytes: &[u8], origin: u64) -> Result<Self, Malformed> {
        let mut of = Self::default();
        let (mut dims, mut perm) = (Vec::new(), Vec::new());
        for field in Fields::new(bytes, origin) {
            match field? {
                (mesh::AXES, Value::Bytes(axis)) => of.dims.push(Self::size(axis, origin)?),
                (mesh::DEVICE_IDS, value) => packed(value, &mut of.devices),
                (mesh::IOTA_TRANSFORM, Value::Bytes(transform)) => {
                    for field in Fields::new(transform, origin) {
                        match field? {
                            (iota_transform::RESHAPE_DIMS, value) => packed(value, &mut dims),
                            (iota_transform::TRANSPOSE_PERM, value) => packed(value, &mut perm),
                            _ => {}
                        }
                    }
                }
                _ => {}
            }
        }
        if !dims.is_empty() {
            let total = of.dims.iter().try_fold(1i64, |total, &dim| total.checked_mul(dim)).unwrap_or(0);
            of.devices = iota(1, total, &dims, &perm).concat();
        }
        Ok(of)
    }

    fn size(bytes: &[u8], origin: u64) -> Result<i64, Malformed> {
        let mut size = 0;
        for field in Fields::new(bytes, origin) {
            if let (mesh_axis::SIZE, Value::Varint(number)) = field? {
                size = number as i64;
            }
        }
        Ok(size)
    }
}

/// The groups along some axes of a mesh; none if it has no such axes.
fn along(of: &Mesh, axes: &[Axis]) -> Option<Vec<Vec<i64>>> {
    let (mut dims, mut others, mut grouped) = (Vec::new(), Vec::new(), Vec::new());
    for (number, &length) in of.dims.iter().enumerate() {
        let own = axes.iter().filter(|axis| axis.number == number as i64);
        let mut parts: Vec<(i64, i64)> = own.map(|axis| axis.part.unwrap_or((1, length))).collect();
        parts.sort_unstable();
        let mut at = 1;
        for (before, size) in parts {
            others.extend(split(&mut dims, at, before)?);
            grouped.extend(split(&mut dims, before, before.checked_mul(size)?)?);
            at = before * size;
        }
        others.extend(split(&mut dims, at, length)?);
    }
    let size = grouped.iter().try_fold(1i64, |size, &place| size.checked_mul(dims[place as usize]))?;
    let total = dims.iter().try_fold(1i64, |total, &dim| total.checked_mul(dim))?;
    let perm: Vec<i64> = others.into_iter().chain(grouped).collect();
    let groups = iota(total.checked_div(size)?, size, &dims, &perm);
    if of.devices.is_empty() {
        return Some(groups);
    }
    let named = |place: &i64| of.devices.get(*place as usize).copied();
    groups.iter().map(|group| group.iter().map(named).collect()).collect()
}

/// Adds what an axis is split into between two of its sizes; where that is in the dimensions, nothing where it is one.
fn split(dims: &mut Vec<i64>, from: i64, to: i64) -> Option<Option<i64>> {
    if from < 1 || to < from || to % from != 0 {
        return None;
    }
    if from == to {
        return Some(None);
    }
    dims.push(to / from);
    Some(Some(dims.len() as i64 - 1))
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

    fn all_of(number: i64) -> Axis {
        Axis { number, part: None }
    }

    fn part_of(number: i64, before: i64, size: i64) -> Axis {
        Axis { number, part: Some((before, size)) }
    }

    fn counted(dims: &[i64]) -> Mesh {
        Mesh { dims: dims.to_vec(), devices: Vec::new() }
    }

    #[test]
    fn groups_along_axes_of_a_mesh_are_written_out() {
        assert_eq!(along(&counted(&[4, 2]), &[all_of(1)]).unwrap(), [[0, 1], [2, 3], [4, 5], [6, 7]]);
        assert_eq!(along(&counted(&[4, 2]), &[all_of(0)]).unwrap(), [[0, 2, 4, 6], [1, 3, 5, 7]]);
        assert_eq!(along(&counted(&[2, 1, 2]), &[all_of(0), all_of(2)]).unwrap(), [[0, 1, 2, 3]]);
        let named = Mesh { dims: vec![2, 2], devices: vec![3, 2, 1, 0] };
        assert_eq!(along(&named, &[all_of(1)]).unwrap(), [[3, 2], [1, 0]]);
    }

    #[test]
    fn groups_along_parts_of_an_axis_are_written_out() {
        assert_eq!(along(&counted(&[8]), &[part_of(0, 1, 2)]).unwrap(), [[0, 4], [1, 5], [2, 6], [3, 7]]);
        assert_eq!(along(&counted(&[8]), &[part_of(0, 4, 2)]).unwrap(), [[0, 1], [2, 3], [4, 5], [6, 7]]);
        let both = [part_of(0, 1, 2), part_of(0, 4, 2)];
        assert_eq!(along(&counted(&[8]), &both).unwrap(), [[0, 1, 4, 5], [2, 3, 6, 7]]);
    }

    #[test]
    fn a_mesh_is_read_with_the_order_of_its_devices() {
        // Sizes 4 and 2; an iota of 2 by 4 that is transposed.
        let transform = [0x1a, 8, 0x0a, 2, 2, 4, 0x12, 2, 1, 0];
        let axes = [0x0a, 14, 0x0a, 2, 0x10, 4, 0x0a, 2, 0x10, 2];
        let mut bytes = axes.to_vec();
        bytes[1] = 8 + transform.len() as u8;
        bytes.extend(transform);
        bytes.extend([0x12, 2, 0x08, 1]);
        assert_eq!(mesh_groups(&bytes, 0).unwrap(), [[0, 4], [1, 5], [2, 6], [3, 7]]);
    }

    #[test]
    fn axes_that_a_mesh_does_not_have_make_no_groups() {
        assert_eq!(along(&counted(&[8]), &[part_of(0, 3, 2)]), None);
        assert_eq!(along(&counted(&[8]), &[part_of(0, 0, 2)]), None);
        assert_eq!(along(&counted(&[8]), &[all_of(0), all_of(0)]), None);
        assert_eq!(along(&counted(&[i64::MAX, i64::MAX]), &[all_of(0)]), None);
        assert!(along(&counted(&[i64::MAX]), &[all_of(0)]).unwrap().is_empty());
        assert_eq!(along(&Mesh { dims: vec![4], devices: vec![1] }, &[all_of(0)]), None);
    }

    #[test]
    fn an_iota_that_makes_no_sense_has_no_groups() {
        assert!(iota(2, 2, &[5], &[]).is_empty());
        assert!(iota(1, 4, &[2, 2], &[0, 0]).is_empty());
        assert!(iota(1, i64::MAX, &[i64::MAX], &[]).is_empty());
        assert!(iota(i64::MAX, 2, &[2], &[]).is_empty());
    }
}
