import type { RunnerStatus } from '../service.js'

export type StatusKind = RunnerStatus extends infer S ? S extends S ? keyof S & string : never : never

/**
 * Allowed status changes. A runner that ends by itself returns to RunnerIdle and restarts; RunnerFailed ends
 * the restarts, and RunnerShutdown ends the runner.
 */
export const NEXT_STATUS: Readonly<Record<StatusKind, readonly StatusKind[]>> = {
  RunnerIdle: ['RunnerConnecting', 'RunnerShuttingDown', 'RunnerFailed'],
  RunnerConnecting: ['RunnerConnected', 'RunnerIdle', 'RunnerShuttingDown', 'RunnerFailed'],
  RunnerConnected: ['RunnerLoading', 'RunnerIdle', 'RunnerShuttingDown', 'RunnerFailed'],
  RunnerLoading: ['RunnerLoading', 'RunnerLoaded', 'RunnerIdle', 'RunnerShuttingDown', 'RunnerFailed'],
  RunnerLoaded: ['RunnerWarmingUp', 'RunnerIdle', 'RunnerShuttingDown', 'RunnerFailed'],
  RunnerWarmingUp: ['RunnerReady', 'RunnerIdle', 'RunnerShuttingDown', 'RunnerFailed'],
  RunnerReady: ['RunnerRunning', 'RunnerIdle', 'RunnerShuttingDown', 'RunnerFailed'],
  RunnerRunning: ['RunnerReady', 'RunnerIdle', 'RunnerShuttingDown', 'RunnerFailed'],
  RunnerShuttingDown: ['RunnerShutdown'],
  RunnerShutdown: [],
  RunnerFailed: ['RunnerShuttingDown']
}

export function kindOf (status: RunnerStatus): StatusKind { return Object.keys(status)[0] as StatusKind }

export function mayFollow (from: StatusKind, to: StatusKind): boolean {
  return NEXT_STATUS[from].includes(to)
}

const ADVANCE: readonly StatusKind[] = [
  'RunnerFailed', 'RunnerShutdown', 'RunnerShuttingDown', 'RunnerIdle', 'RunnerConnecting', 'RunnerConnected',
  'RunnerLoading', 'RunnerLoaded', 'RunnerWarmingUp', 'RunnerRunning', 'RunnerReady'
]

export const statusRank = (status: RunnerStatus | null): number =>
  ADVANCE.indexOf(status === null ? 'RunnerIdle' : kindOf(status))

/** True from the moment the model is in memory until the process ends. */
export const isLoaded = (kind: StatusKind): boolean =>
  kind === 'RunnerLoaded' || kind === 'RunnerWarmingUp' || kind === 'RunnerShuttingDown' || serves(kind)

export function serves (kind: StatusKind): boolean {
  return kind === 'RunnerReady' || kind === 'RunnerRunning'
}
