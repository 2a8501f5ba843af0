//! Floating-point operations of products: matrices, convolutions, and the libraries' calls for both.
//!
//! A product of a pair of elements and its sum are two operations. Positions of a convolution's window in padding, or in
//! the holes of a dilated input, are none, as in XLA's own cost analysis.

use crate::xplane::hlo::config::{list, whole};
use crate::xplane::protobuf::{Fields, Malformed, Value, packed};
use crate::xplane::schema::{convolution_dimension_numbers, dot_dimension_numbers, window, window_dimension};

/// Custom calls that multiply matrices: cuBLAS, which hipBLASLt is called by too, and oneDNN.
const GEMMS: [&[u8]; 2] = [b"__cublas$", b"__onednn$matmul"];
/// Custom calls that convolve, of cuDNN, which MIOpen is called by too; what their operands and results are differs.
const CONVOLUTION: &[u8] = b"__cudnn$conv";
const OF_INPUT: &[u8] = b"__cudnn$convBackwardInput";
const OF_KERNEL: &[u8] = b"__cudnn$convBackwardFilter";

/// What an instruction says of the product that it computes.
#[derive(Default)]
pub struct Product {
    contracted: Vec<i64>,
    window: Vec<WindowDimension>,
    dimensions: Option<ConvolutionDimensions>,
}

/// One dimension that a window moves along.
struct WindowDimension {
    size: i64,
    stride: i64,
    padding_low: i64,
    window_dilation: i64,
    base_dilation: i64,
}

/// Which dimensions of the arrays of a convolution are what.
#[derive(Default)]
struct ConvolutionDimensions {
    kernel_features: i64,
    kernel: Vec<i64>,
    input: Vec<i64>,
    output: Vec<i64>,
}

impl Product {
    pub fn read_dot(&mut self, bytes: &[u8], origin: u64) -> Result<(), Malformed> {
        for field in Fields::new(bytes, origin) {
            if let (dot_dimension_numbers::LHS_CONTRACTING_DIMENSIONS, value) = field? {
                packed(value, &mut self.contracted);
            }
        }
        Ok(())
    }

    pub fn read_window(&mut self, bytes: &[u8], origin: u64) -> Result<(), Malformed> {
        for field in Fields::new(bytes, origin) {
            let (window::DIMENSIONS, Value::Bytes(dimension)) = field? else { continue };
            let mut read = WindowDimension { size: 0, stride: 1, padding_low: 0, window_dilation: 1, base_dilation: 1 };
            for field in Fields::new(dimension, origin) {
                let (number, Value::Varint(value)) = field? else { continue };
                let value = value as i64;
                match number {
                    window_dimension::SIZE => read.size = value,
                    window_dimension::STRIDE => read.stride = value,
                    window_dimension::PADDING_LOW => read.padding_low = value,
                    window_dimension::WINDOW_DILATION => read.window_dilation = value,
                    window_dimension::BASE_DILATION => read.base_dilation = value,
                    _ => {}
                }
            }
            self.window.push(read);
        }
        Ok(())
    }

    pub fn read_convolution(&mut self, bytes: &[u8], origin: u64) -> Result<(), Malformed> {
        let mut read = ConvolutionDimensions::default();
        for field in Fields::new(bytes, origin) {
            match field? {
                (convolution_dimension_numbers::KERNEL_INPUT_FEATURE_DIMENSION, Value::Varint(number)) => {
                    read.kernel_features = number as i64;
                }
                (convolution_dimension_numbers::KERNEL_SPATIAL_DIMENSIONS, value) => packed(value, &mut read.kernel),
                (convolution_dimension_numbers::INPUT_SPATIAL_DIMENSIONS, value) => packed(value, &mut read.input),
                (convolution_dimension_numbers::OUTPUT_SPATIAL_DIMENSIONS, value) => packed(value, &mut read.output),
                _ => {}
            }
        }
        self.dimensions = Some(read);
        Ok(())
    }

    /// Of a product of matrices.
    pub fn dot(&self, result: &[i64], operands: &[&[i64]]) -> Option<i64> {
        dot(result, operands.first()?, &self.contracted)
    }

    /// Of a convolution of `input` by `kernel`.
    pub fn convolution(&self, input: &[i64], kernel: &[i64], output: &[i64]) -> Option<i64> {
        let dimensions = self.dimensions.as_ref()?;
        let positions = self.window.iter().enumerate().try_fold(1i64, |product, (at, dimension)| {
            let length = |of: &[i64], places: &[i64]| of.get(usize::try_from(*places.get(at)?).ok()?).copied();
            let (inputs, outputs) = (length(input, &dimensions.input)?, length(output, &dimensions.output)?);
            product.checked_mul(dimension.positions(inputs, outputs)?)
        })?;
        // What is in no spatial dimension of the output is the batch and its features.
        let others = output.iter().enumerate().filter(|(at, _)| !dimensions.output.contains(&(*at as i64)));
        let others = elements(others.map(|(_, length)| *length))?;
        let features = *kernel.get(usize::try_from(dimensions.kernel_features).ok()?)?;
        // The images of a batch whose groups make features are summed up: each group has its own.
        2i64.checked_mul(positions)?.checked_mul(others)?.checked_mul(features)
    }

    /// Of a custom call: what its author declared, else by its shapes where it is a library's product.
    pub fn custom_call(&self, target: &[u8], config: &[u8], result: &[i64], operands: &[&[i64]]) -> Option<i64> {
        if let Some(flops) = whole(config, "flops").filter(|flops| *flops > 0) {
            return Some(flops);
        }
        if GEMMS.iter().any(|name| target.starts_with(name)) {
            let contracted = list(config, "lhs_contracting_dimensions");
            return if contracted.is_empty() { None } else { dot(result, operands.first()?, &contracted) };
        }
        let (first, second) = (*operands.first()?, *operands.get(1)?);
        match target {
            _ if target.starts_with(OF_INPUT) => self.convolution(result, second, first),
            _ if target.starts_with(OF_KERNEL) => self.convolution(first, result, second),
            _ if target.starts_with(CONVOLUTION) => self.convolution(first, second, result),
            _ => None,
        }
    }
}

impl WindowDimension {
    /// Pairs of a place of the output and one of the window that meet an element of the input.
    fn positions(&self, inputs: i64, outputs: i64) -> Option<i64> {
        let lengths = [inputs, outputs, self.stride, self.window_dilation, self.base_dilation];
        // No array is as long as this, and no window as large, whatever a file says.
        let is_absurd = lengths.iter().any(|length| !(0..1 << 40).contains(length))
            || !(-1 << 40..1 << 40).contains(&self.padding_low)
            || self.stride < 1
            || self.base_dilation < 1
            || self.size < 0
            || self.size.saturating_mul(self.base_dilation) > 1 << 20;
        if is_absurd {
            return None;
        }
        let dilated = if inputs > 0 { (inputs - 1) * self.base_dilation + 1 } else { 0 };
        let begins = (0..self.size).map(|at| at * self.window_dilation - self.padding_low);
        Some(begins.map(|begin| meetings(begin, self.stride, outputs, dilated, self.base_dilation)).sum())
    }
}

/// How many of the `count` places `begin`, `begin + stride`, … lie in 0..`end` and at a multiple of `step`.
fn meetings(begin: i64, stride: i64, count: i64, end: i64, step: i64) -> i64 {
    let first = if begin < 0 { (stride - 1 - begin) / stride } else { 0 };
    let last = if begin >= end { 0 } else { ((end - 1 - begin) / stride + 1).min(count) };
    // Multiples come around after at most as many places as the step has.
    let is_met = |place: &i64| (begin + place * stride).rem_euclid(step) == 0;
    let Some(met) = (first..last.min(first + step)).find(is_met) else { return 0 };
    let period = (1..=step).find(|places| (places * (stride % step)) % step == 0).unwrap_or(step);
    (last - 1 - met) / period + 1
}

fn dot(result: &[i64], lhs: &[i64], contracted: &[i64]) -> Option<i64> {
    let summed = contracted.iter().map(|&at| lhs.get(usize::try_from(at).ok()?).copied());
    let summed = summed.collect::<Option<Vec<_>>>()?;
    2i64.checked_mul(elements(result.iter().copied())?)?.checked_mul(elements(summed.into_iter())?)
}

fn elements(mut dimensions: impl Iterator<Item = i64>) -> Option<i64> {
    dimensions.try_fold(1i64, |product, length| product.checked_mul(length.max(0)))
}

#[cfg(test)]
mod tests {
    use super::{WindowDimension, dot};

    fn window(size: i64, stride: i64, padding_low: i64, window_dilation: i64, base_dilation: i64) -> WindowDimension {
        WindowDimension { size, stride, padding_low, window_dilation, base_dilation }
    }

    /// One by one.
    fn counted(of: &WindowDimension, inputs: i64, outputs: i64) -> i64 {
        let places = (0..outputs).flat_map(|out| (0..of.size).map(move |at| (out, at)));
        let met = places.filter(|(out, at)| {
            let place = out * of.stride + at * of.window_dilation - of.padding_low;
            place >= 0 && place % of.base_dilation == 0 && place / of.base_dilation < inputs
        });
        met.count() as i64
    }

    #[test]
    fn windows_meet_as_many_elements_as_when_counted_one_by_one() {
        for inputs in 1..7 {
            for (size, stride, padding) in [(1, 1, 0), (3, 1, 1), (3, 2, 1), (5, 3, 4), (2, 4, 0), (4, 1, -1)] {
                for (window_dilation, base_dilation) in [(1, 1), (2, 1), (1, 2), (2, 3), (3, 4)] {
                    let of = window(size, stride, padding, window_dilation, base_dilation);
                    for outputs in 0..9 {
                        assert_eq!(of.positions(inputs, outputs), Some(counted(&of, inputs, outputs)));
                    }
                }
            }
        }
    }

    #[test]
    fn absurd_windows_are_not_counted() {
        assert_eq!(window(1 << 40, 1, 0, 1, 1).positions(8, 8), None);
        assert_eq!(window(3, 0, 0, 1, 1).positions(8, 8), None);
        assert_eq!(window(3, 1, 0, 1, i64::MAX).positions(8, 8), None);
    }

    #[test]
    fn a_product_is_two_operations_for_each_pair() {
        assert_eq!(dot(&[4, 8, 8], &[4, 8, 16], &[2]), Some(2 * 4 * 8 * 8 * 16));
        assert_eq!(dot(&[4], &[4], &[1]), None);
        assert_eq!(dot(&[i64::MAX, 2], &[1], &[]), None);
    }
}
