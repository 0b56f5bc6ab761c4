import type { Runtimes } from '../gpu-facts.js'

/** The backend an engine will use, or why there is none. */
export type BackendChoice =
  { backend: string, declared: boolean } | { backend: null, problem: string, remedy: string }

/** What the choice depends on: the engine's offer, the operator's word and what is found here. */
export interface BackendQuery {
  engine: string
  /** Backends the engine offers, best first. */
  offers: readonly string[]
  declared: string | undefined
  runtimes: Runtimes
}

/**
 * Picks the backend of an engine. A declared one wins, seen or not. Without a declaration cuda is used
 * where a GPU and its libraries are found; webgpu never by itself, because only a trial shows whether the
 * machine's driver works; else the CPU.
 */
export function chooseBackend ({ engine, offers, declared, runtimes }: BackendQuery): BackendChoice {
  const key = `plugins.runners.backends.${engine}`
  if (declared !== undefined) {
    if (offers.includes(declared)) return { backend: declared, declared: true }
    return {
      backend: null,
      problem: `${key} is ${declared}, but engine ${engine} offers ${offers.join(', ')}`,
      remedy: `Set ${key} to one of ${offers.join(', ')} in svc.yaml and restart.`
    }
  }
  const found = offers.find(
    (name) => name === 'cpu' || (name === 'cuda' && runtimes.cuda && runtimes.nvidiaDevice)
  )
  if (found !== undefined) return { backend: found, declared: false }
  return {
    backend: null,
    problem: `engine ${engine} offers ${offers.join(', ')}, none of which is found here`,
    remedy: `Set ${key} to one of ${offers.join(', ')} in svc.yaml to use it all the same, and restart.`
  }
}

/** What counts for an engine: an external program brings its own libraries for the GPU. */
export const runtimesFor = (engine: { external?: boolean | undefined }, runtimes: Runtimes): Runtimes =>
  engine.external === true ? { ...runtimes, cuda: true } : runtimes

/** Reads the `backends` table of the configuration, whose values the schema has checked. */
export function declaredBackend (
  backends: Readonly<Record<string, unknown>>,
  engine: string
): string | undefined {
  const value = Object.hasOwn(backends, engine) ? backends[engine] : undefined
  return typeof value === 'string' ? value : undefined
}
