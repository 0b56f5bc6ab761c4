import type { SttSegment } from './service.js'

/** Times as `01:02:03.004`; SubRip writes a comma instead of the point. */
function clock (seconds: number, point: '.' | ','): string {
  const all = Math.max(0, Math.round(seconds * 1000))
  const two = (value: number): string => String(Math.floor(value)).padStart(2, '0')
  const ms = String(all % 1000).padStart(3, '0')
  return `${two(all / 3_600_000)}:${two(all / 60_000 % 60)}:${two(all / 1000 % 60)}${point}${ms}`
}

const cue = ({ start, end, text }: SttSegment, point: '.' | ','): string =>
  `${clock(start, point)} --> ${clock(end, point)}\n${text.trim().replace('-->', '->')}\n\n`

/** Subtitles in SubRip's format. */
export const toSrt = (segments: readonly SttSegment[]): string =>
  segments.map((segment, i) => `${i + 1}\n${cue(segment, ',')}`).join('')

/** Subtitles in WebVTT, by the W3C. */
export const toVtt = (segments: readonly SttSegment[]): string =>
  `WEBVTT\n\n${segments.map((segment) => cue(segment, '.')).join('')}`
