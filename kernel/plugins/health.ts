import type { ConflictDecl, ReadyCheck } from '../api/plugin.js'

export interface HealthReason {
  code: string
  severity: 'warn' | 'error'
  message: string
  remediation: string
}

export interface NodeHealth { level: 'ok' | 'warn' | 'error', reasons: HealthReason[] }

/** Conflicts and faults raised on this node, by code; `declare` registers the text for each code. */
export interface Health {
  declare (conflicts: Readonly<Record<string, ConflictDecl>>): void
  raise (code: string, observed: string): void
  clear (code: string): void
  snapshot (): NodeHealth
}

export function createHealth (): Health {
  const known = new Map<string, ConflictDecl>()
  const raised = new Map<string, string>()
  return {
    declare (conflicts) { for (const [code, decl] of Object.entries(conflicts)) known.set(code, decl) },
    raise (code, observed) {
      if (!known.has(code)) throw new Error(`the conflict code "${code}" is not declared`)
      raised.set(code, observed)
    },
    clear (code) { raised.delete(code) },
    snapshot () {
      const reasons = [...raised].map(([code, observed]) => {
        const { severity, meaning, remediation } = known.get(code)!
        return { code, severity, message: `${meaning} ${observed}`.trim(), remediation }
      })
      const level = reasons.some((r) => r.severity === 'error') ? 'error' : reasons.length > 0 ? 'warn' : 'ok'
      return { level, reasons }
    }
  }
}

type Check = (model?: string) => ReadyCheck | Promise<ReadyCheck>

/** The named checks behind GET /readyz. */
export interface Readiness {
  /** Adds a check; returns a function that removes it. */
  add (name: string, check: Check): () => void
  /** Runs all checks; leaves out those with `ok: null`. A check that throws counts as failed. */
  run (model?: string): Promise<{ name: string, ok: boolean, detail: string }[]>
}

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
