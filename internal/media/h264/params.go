package h264

const (
	profileBaseline = 66
	// constraintFlags sets constraint_set0_flag and constraint_set1_flag: Constrained Baseline.
	constraintFlags = 0xC0
	// basePictureQP is 26 + pic_init_qp_minus26.
	basePictureQP = 26
)

// Colour description, ITU-T H.273: BT.709 primaries and transfer, BT.601 matrix, limited range.
//
// Readers that ignore tags assume this matrix. The tags are for all others.
const (
	ColourPrimaries = 1
	TransferFunc    = 1
	MatrixCoeffs    = 6
)

// chromaCentre is chroma_sample_loc_type 1 (figure E-1): a chroma sample sits between its four luma samples,
// which is what averaging 2x2 pixels gives.
const chromaCentre = 1

// sequenceParams returns the SPS NAL unit (clause 7.3.2.1.1).
func sequenceParams(c Config, levelIDC int) []byte {
	w := &bitWriter{}
	mbWidth, mbHeight := c.macroblocks()
	w.bits(profileBaseline, 8)
	w.bits(constraintFlags, 8)
	w.bits(uint32(levelIDC), 8)
	w.ue(0)                // seq_parameter_set_id
	w.ue(frameNumBits - 4) // log2_max_frame_num_minus4
	w.ue(2)                // pic_order_cnt_type: output order is decoding order
	w.ue(1)                // max_num_ref_frames
	w.flag(false)          // gaps_in_frame_num_value_allowed_flag
	w.ue(uint32(mbWidth - 1))
	w.ue(uint32(mbHeight - 1))
	w.flag(true) // frame_mbs_only_flag
	w.flag(true) // direct_8x8_inference_flag
	cropRight, cropBottom := (16*mbWidth-c.Width)/2, (16*mbHeight-c.Height)/2
	w.flag(cropRight+cropBottom > 0)
	if cropRight+cropBottom > 0 {
		w.ue(0)
		w.ue(uint32(cropRight))
		w.ue(0)
		w.ue(uint32(cropBottom))
	}
	w.flag(true) // vui_parameters_present_flag
	w.usability(c)
	w.trailing()
	return nalUnit(nalSPS, w.buf)
}

// usability writes vui_parameters (clause E.1.1).
func (w *bitWriter) usability(c Config) {
	w.flag(true) // aspect_ratio_info_present_flag
	w.bits(1, 8) // square samples
	w.flag(false)
	w.flag(true) // video_signal_type_present_flag
	w.bits(5, 3) // video_format: unspecified
	w.flag(false)
	w.flag(true) // colour_description_present_flag
	w.bits(ColourPrimaries, 8)
	w.bits(TransferFunc, 8)
	w.bits(MatrixCoeffs, 8)
	w.flag(true) // chroma_loc_info_present_flag
	w.ue(chromaCentre)
	w.ue(chromaCentre)
	w.flag(true)           // timing_info_present_flag
	w.bits(c.FPSDen, 32)   // num_units_in_tick
	w.bits(2*c.FPSNum, 32) // time_scale: two ticks a frame
	w.flag(true)           // fixed_frame_rate_flag
	w.flag(false)          // nal_hrd_parameters_present_flag
	w.flag(false)          // vcl_hrd_parameters_present_flag
	w.flag(false)          // pic_struct_present_flag
	w.flag(true)           // bitstream_restriction_flag
	w.flag(true)           // motion_vectors_over_pic_boundaries_flag
	w.ue(0)                // max_bytes_per_pic_denom: no limit given
	w.ue(0)                // max_bits_per_mb_denom: no limit given
	w.ue(log2MaxVectorX)   // log2_max_mv_length_horizontal
	w.ue(log2MaxVectorY)   // log2_max_mv_length_vertical
	w.ue(0)                // max_num_reorder_frames
	w.ue(1)                // max_dec_frame_buffering
}

// The largest vectors of any level in quarter samples: 2048 and 512 whole samples.
const (
	log2MaxVectorX = 13
	log2MaxVectorY = 11
)

// pictureParams returns the PPS NAL unit (clause 7.3.2.2).
func pictureParams() []byte {
	w := &bitWriter{}
	w.ue(0)       // pic_parameter_set_id
	w.ue(0)       // seq_parameter_set_id
	w.flag(false) // entropy_coding_mode_flag: CAVLC
	w.flag(false) // bottom_field_pic_order_in_frame_present_flag
	w.ue(0)       // num_slice_groups_minus1
	w.ue(0)       // num_ref_idx_l0_default_active_minus1
	w.ue(0)       // num_ref_idx_l1_default_active_minus1
	w.flag(false) // weighted_pred_flag
	w.bits(0, 2)  // weighted_bipred_idc
	w.se(0)       // pic_init_qp_minus26
	w.se(0)       // pic_init_qs_minus26
	w.se(0)       // chroma_qp_index_offset
	w.flag(true)  // deblocking_filter_control_present_flag
	w.flag(false) // constrained_intra_pred_flag
	w.flag(false) // redundant_pic_cnt_present_flag
	w.trailing()
	return nalUnit(nalPPS, w.buf)
}
