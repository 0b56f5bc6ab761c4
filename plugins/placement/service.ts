import { defineService } from '../../kernel/index.js'
import type { makeReady } from './cli/place.js'
import type { SvcError } from '../../kernel/index.js'

export interface RoleModels {
  /** Ids of acceptable models, best first; empty if the role needs no instance. */
  readonly models: readonly string[]
  /** True if the best model waits for a place when no model fits. */
  readonly waits: boolean
}

/** A role of which the cluster keeps one instance. */
export interface SystemRole {
  readonly systemRole: string
  /** The currently acceptable models; the plugin on the master decides. Must be fast and must not throw. */
  wanted (): RoleModels
  /** The error for a client that tries to stop the instance while the role needs it. */
  refusal (instanceId: string): SvcError
}

export interface RoleStatus {
  readonly instanceId: string
  readonly modelId: string
  /** False if another client placed the instance, in which case it is neither kept nor replaced. */
  readonly own: boolean
  readonly state: 'waiting' | 'downloading' | 'starting' | 'ready' | 'failed'
  /** Message of the failure, or of the last refusal. */
  readonly problem?: string | undefined
}

export interface PlacementKeeper {
  /**
   * Keeps one instance of the role placed: replaces a lost instance, removes one that is no longer needed.
   * Returns a function that unregisters the role; a master without the role removes the instance.
   */
  keep (keeping: SystemRole): () => void
  /** The role's instance or waiting entry, otherwise another instance of an acceptable model. */
  kept (systemRole: string): RoleStatus | null
  /**
   * Records that the role's instance does not serve, and places it again, preferably on other nodes. Does
   * nothing if the instance no longer exists. Throws `no_master`, `no_quorum`, `session_changed`.
   */
  replace (instanceId: string, because: { errorCode: string, errorMessage: string }): Promise<void>
  isStopped (modelId: string): boolean
}
export const PlacementService = defineService<PlacementKeeper>('placement')

/** The module behind `svc place`, whose `makeReady` other verbs use. */
export interface PlaceModule { makeReady: typeof makeReady }
