import { defineService } from '../../kernel/index.js'
import type { makeReady } from './cli/place.js'
import type { SvcError } from '../../kernel/index.js'

export interface RoleModels {
  /** Best first; none: nothing is to be there. */
  readonly models: readonly string[]
  /** Where none fits, the best one waits for a place. */
  readonly waits: boolean
}

/** What a plugin has the cluster keep one instance of. */
export interface SystemRole {
  /** Stands in `systemRole` of the instance. */
  readonly systemRole: string
  /** What is wanted now. The word of the master's plugin counts. Quick, and throws nothing. */
  wanted (): RoleModels
  /** What somebody is told who would stop the instance while it is wanted. */
  refusal (instanceId: string): SvcError
}

/** How the instance of a role stands, as this node knows it. */
export interface RoleStatus {
  /** Of the instance, or of what waits for a place. */
  readonly instanceId: string
  readonly modelId: string
  /** False for an instance that somebody else placed: nothing of it is kept or replaced. */
  readonly own: boolean
  readonly state: 'waiting' | 'downloading' | 'starting' | 'ready' | 'failed'
  /** Why it failed, or found no place when it was tried last. */
  readonly problem?: string | undefined
}

export interface PlacementKeeper {
  /**
   * Has the cluster place what is wanted, one instance of it, place it anew when it is lost, and remove it
   * when it is not wanted any more. Returns what ends that: a master without a word for it removes it.
   */
  keep (keeping: SystemRole): () => void
  /** What there is for the role: its own instance, what waits, else an instance of a model that would do. */
  kept (systemRole: string): RoleStatus | null
  /**
   * Records that the instance of a role does not serve, and has it placed anew, on other nodes if there are
   * any. Nothing happens when it is gone. Throws `no_master`, `no_quorum`, `session_changed`.
   */
  replace (instanceId: string, because: { errorCode: string, errorMessage: string }): Promise<void>
  isStopped (modelId: string): boolean
}
export const PlacementService = defineService<PlacementKeeper>('placement')

/** The module of `svc place`: `makeReady` has a model served, for other verbs. */
export interface PlaceModule { makeReady: typeof makeReady }
