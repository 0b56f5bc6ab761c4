import { mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { Chain, chainLimits, type ChainLimits } from '../chain/chain.js'
import { canonicalJson, GENESIS, withHash, type AuditRecord, type RecordFields } from '../chain/record.js'
import { Verifier, type Verdict } from '../chain/verify.js'

export const NODE = '11111111-1111-4111-8111-111111111111'

export const fields = (more: Partial<RecordFields> = {}): RecordFields =>
  ({ who: 'operator', how: 'direct', what: 'PUT /config', detail: {}, ...more })

export function records (
  count: number, more: (seq: number) => Partial<RecordFields> = () => ({})
): AuditRecord[] {
  const made: AuditRecord[] = []
  for (let seq = 1; seq <= count; seq++) {
    const at = new Date(Date.UTC(2026, 0, 1) + seq * 1000).toISOString()
    made.push(withHash({ seq, at, node: NODE, ...fields(more(seq)), prev: made.at(-1)?.hash ?? GENESIS }))
  }
  return made
}

export const linesOf = (all: readonly AuditRecord[]): string[] => all.map(canonicalJson)

export function verified (lines: Iterable<string>): Verdict {
  const verifier = new Verifier()
  for (const line of lines) verifier.line(line)
  return verifier.end()
}

interface Teardown { teardown? (fn: () => unknown): unknown }

export function tempFolder (t: Teardown): string {
  const folder = mkdtempSync(join(tmpdir(), 'svc-audit-'))
  t.teardown?.(() => { rmSync(folder, { recursive: true, force: true }) })
  return folder
}

/** A started chain with its recorded callbacks. */
export async function openChain (folder: string, limits: Partial<ChainLimits> = {}): Promise<{
  chain: Chain, told: AuditRecord[], faults: (string | null)[]
}> {
  const told: AuditRecord[] = []
  const faults: (string | null)[] = []
  const chain = new Chain({
    folder, node: NODE, now: Date.now, limits: { ...chainLimits, ...limits },
    onRecord: (record) => { told.push(record) }, onFault: (why) => { faults.push(why) }
  })
  await chain.start()
  return { chain, told, faults }
}

export async function everyLine (chain: Chain): Promise<string[]> {
  const lines: string[] = []
  for await (const line of chain.lines()) lines.push(line)
  return lines
}

/** Names of the chain files, oldest first. */
export const filesIn = (folder: string): string[] =>
  readdirSync(folder).filter((name) => name.endsWith('.jsonl')).sort()

export function edit (path: string, change: (text: string) => string): void {
  writeFileSync(path, change(readFileSync(path, 'utf8')))
}
