import type { ReadyCheck } from '../api/plugin.js'

type Check = (model?: string) => ReadyCheck | Promise<ReadyCheck>

/** The named checks behind GET /readyz. */
export interface Readiness {
  /** Adds a check; returns what removes it. */
  add (name: string, check: Check): () => void
  /** Runs every check; those with nothing to say are left out. A check that throws is a failed one. */
  run (model?: string): Promise<{ name: string, ok: boolean, detail: string }[]>
}

/** No checks yet; plugins add theirs. */
export function createReadiness (): Readiness {
  const checks = new Map<string, Check>()
  const one = async (name: string, check: Check, model?: string): Promise<{ name: string } & ReadyCheck> => {
    try {
      return { name, ...await check(model) }
    } catch (error) {
      return { name, ok: false, detail: error instanceof Error ? error.message : 'the check failed' }
    }
  }
  return {
    add (name, check) {
      checks.set(name, check)
      return () => { checks.delete(name) }
    },
    async run (model) {
      const results = await Promise.all([...checks].map(([name, check]) => one(name, check, model)))
      return results.flatMap(({ name, ok, detail }) => ok === null ? [] : [{ name, ok, detail }])
    }
  }
}
