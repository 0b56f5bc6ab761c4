import type { StateReader } from '../../kernel/index.js'
import type { Instance } from '../runners/service.js'
import type { WaitingInstance } from './standing.js'

interface Bytes { inBytes: number }

/** A live connection of two nodes. */
export interface Edge {
  sinkMultiaddr: { ipAddress: string, port: number } | null
  /** A live authenticated connection proves it. */
  session: boolean
}

/** A transfer of a model to a node: a one-key object such as `DownloadFailed`. */
export type Download = Record<string, Transfer>
interface Transfer { modelId?: string, attemptId?: string, errorMessage?: string }

/** Why an instance cannot serve. */
export interface InstanceFailure {
  instanceId: string
  errorCode: string
  errorMessage: string
  affectedNodeIds: string[]
}

/** The parts of GET /state that placing reads; addresses included. A node may be missing in any map. */
export interface StateView {
  instances: Record<string, Instance>
  /** Runner id to its status, a one-key object. */
  runners: Record<string, Record<string, unknown>>
  downloads: Record<string, Download[]>
  topology: { nodes: string[], connections: Record<string, Record<string, Edge[]>> }
  nodeMemory: Record<string, { ramTotal: Bytes, ramAvailable: Bytes }>
  nodeSystem: Record<string, { accelerator?: Accelerator | null }>
  nodeResources: Record<string, { backends: string[], participation: 'full' | 'management' }>
  instanceFailures: InstanceFailure[]
  /** What is to be placed as soon as that is possible; absent in the state of an older node. */
  waitingInstances?: Readonly<Record<string, WaitingInstance>>
}

interface Accelerator { vramTotalBytes: number | null, vramUsedBytes: number | null }

export type ReadState = () => Promise<StateView>

/** The state as it is known at once; undefined in the first moments of a node. */
export type KnownState = () => StateView | undefined

/** Reads the state by the kernel's service. */
export function stateReader (service: StateReader): ReadState {
  return async () => await service.read() as unknown as StateView
}

/** The same by what is known at once. */
export function knownState (service: StateReader): KnownState {
  return () => service.known() as unknown as StateView | undefined
}
