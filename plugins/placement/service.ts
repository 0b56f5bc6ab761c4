import { defineService } from '../../kernel/index.js'
import type { makeReady } from './cli/place.js'
import type { SvcError } from '../../kernel/index.js'

export interface RoleModels {
  /** Best first; empty if the role needs no instance. */
  readonly models: readonly string[]
  /** If no model fits, the best one waits for a place. */
  readonly waits: boolean
}

/** A role of which the cluster keeps one instance. */
export interface SystemRole {
  readonly systemRole: string
  /** The acceptable models now. The master's plugin decides. Must be fast and not throw. */
  wanted (): RoleModels
  /** The error for a client that stops the instance while the role needs it. */
  refusal (instanceId: string): SvcError
}

export interface RoleStatus {
  readonly instanceId: string
  readonly modelId: string
  /** False if another client placed the instance; it is then neither kept nor replaced. */
  readonly own: boolean
  readonly state: 'waiting' | 'downloading' | 'starting' | 'ready' | 'failed'
  /** The failure, or the last refusal. */
  readonly problem?: string | undefined
}

export interface PlacementKeeper {
  /**
   * Keeps one instance of the role placed: replaces it when lost and removes it when no longer wanted.
   * Returns a function that unregisters the role; a master without the role removes the instance.
   */
  keep (keeping: SystemRole): () => void
  /** The role's instance or waiting entry, otherwise another instance of an acceptable model. */
  kept (systemRole: string): RoleStatus | null
  /**
   * Records that the role's instance does not serve, and places it again, preferably on other nodes. No
   * effect if it is gone. Throws `no_master`, `no_quorum`, `session_changed`.
   */
  replace (instanceId: string, because: { errorCode: string, errorMessage: string }): Promise<void>
  isStopped (modelId: string): boolean
}
export const PlacementService = defineService<PlacementKeeper>('placement')

/** The module of `svc place`; other verbs use `makeReady`. */
export interface PlaceModule { makeReady: typeof makeReady }
