import { defineService, type SvcError } from '../../kernel/index.js'
import type { makeReady } from './cli/place.js'

export interface RoleModels {
  /** Ids of acceptable models, best first; empty if the role needs no instance now. */
  readonly models: readonly string[]
  /** True if the best model should wait for memory when no acceptable model fits. */
  readonly waits: boolean
}

/** A role for which the cluster keeps one instance. */
export interface SystemRole {
  readonly systemRole: string
  /** The currently acceptable models, as decided by the plugin on the master. Must be fast and not throw. */
  wanted (): RoleModels
  /** The error for a client that tries to stop the instance while the role needs it. */
  refusal (instanceId: string): SvcError
}

export interface RoleStatus {
  readonly instanceId: string
  readonly modelId: string
  /** False if another client placed the instance; then the cluster neither keeps nor replaces it. */
  readonly own: boolean
  readonly state: 'waiting' | 'downloading' | 'starting' | 'ready' | 'failed'
  /** Why the instance failed, or why it could not be placed. */
  readonly problem?: string | undefined
}

export interface PlacementKeeper {
  /**
   * Keeps one instance of the role placed: replaces a lost instance, and removes one that is no longer
   * needed. Returns a function that unregisters the role. A master without the role removes the instance.
   */
  keep (keeping: SystemRole): () => void
  /** The role's instance or waiting entry, or else another instance of an acceptable model. */
  kept (systemRole: string): RoleStatus | null
  /**
   * Records that the role's instance cannot serve, and places it again, preferably on other nodes. Does
   * nothing if the instance no longer exists. Throws `no_master`, `no_quorum`, `session_changed`.
   */
  replace (instanceId: string, because: { errorCode: string, errorMessage: string }): Promise<void>
  isStopped (modelId: string): boolean
}
export const PlacementService = defineService<PlacementKeeper>('placement')

/** The module behind `svc place`, whose `makeReady` other verbs use. */
export interface PlaceModule { makeReady: typeof makeReady }
