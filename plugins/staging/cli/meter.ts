import type { DownloadStatus } from '../store/download.js'
import { showBytes, formatDuration as showSeconds, type VerbContext } from '../../../kernel/cli/index.js'

/** Progress of a transfer in bytes, bytes per second and milliseconds. */
export type Amount = Pick<DownloadStatus, 'downloadedBytes' | 'totalBytes' | 'bytesPerSecond' | 'etaMs'>

/** A progress line. `step` marks every 10%. */
export interface Reading { text: string, step: boolean }

/** Whole percent, 100 only if complete; undefined while the total size is unknown. */
export function percentOf ({ downloadedBytes, totalBytes }: Amount): number | undefined {
  return totalBytes > 0 ? Math.min(100, Math.floor(downloadedBytes / totalBytes * 100)) : undefined
}

/** Remaining ms, reported by the node or computed from the rate; undefined if neither is known. */
export function etaOf (amount: Amount): number | undefined {
  const { downloadedBytes, totalBytes, bytesPerSecond: rate, etaMs } = amount
  if (etaMs !== null) return etaMs
  return rate > 0 && totalBytes > 0 ? Math.max(0, totalBytes - downloadedBytes) / rate * 1000 : undefined
}

export function createMeter (name: string): (amount: Amount) => Reading {
  let bytes = 0
  let percent = 0
  let stepped = -1
  return (amount) => {
    bytes = Math.max(bytes, amount.downloadedBytes)
    percent = Math.max(percent, percentOf(amount) ?? 0)
    const step = Math.floor(percent / 10) > stepped
    if (step) stepped = Math.floor(percent / 10)
    const eta = etaOf({ ...amount, downloadedBytes: bytes })
    const parts = amount.totalBytes === 0
      ? [bytes > 0 ? showBytes(bytes) : 'waiting']
      : [`${percent} %`, `${showBytes(bytes)}/${showBytes(amount.totalBytes)}`,
          ...(amount.bytesPerSecond > 0 ? [`${showBytes(amount.bytesPerSecond)}/s`] : []),
          ...(eta === undefined || percent === 100 ? [] : [`ETA ${showSpan(eta)}`])]
    return { text: [name, ...parts].join('  '), step }
  }
}

/** One updated line on a terminal, otherwise a line for each step. Silent with --json. */
export function showReadings ({ io, out, err }: VerbContext, readings: readonly Reading[]): void {
  if (out.json) return
  if (io.stderr.isTTY === true) err.update(readings.map((reading) => reading.text).join('; '))
  else for (const { text, step } of readings) if (step) err.line(text)
}

/** A span of milliseconds in at most two units, rounded up to seconds: `9s`, `1h12m`, `3d`. */
export const showSpan = (ms: number): string => showSeconds(Math.ceil(ms / 1000))
