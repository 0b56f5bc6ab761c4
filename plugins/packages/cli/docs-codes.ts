import { failuresOf, installationOf, kernelManifest } from '../../../kernel/installing.js'
import type { Verb } from '../../../kernel/cli/index.js'
import type { Manifest } from '../../../kernel/index.js'

interface Code {
  kind: 'error' | 'conflict' | 'event' | 'authority'
  code: string
  owner: string
  /** Text in the RANK column: the HTTP status, the severity or the plane of the code. */
  rank: string | null
  meaning: string
  remedy: string | null
}

export default {
  async run (ctx, _args, options) {
    const installation = await installationOf(ctx, options['config'])
    const codes = [kernelManifest, ...installation.plugins.map((p) => p.manifest)].flatMap(codesOf)
    if (ctx.out.json) ctx.out.value({ codes })
    else {
      ctx.out.table(['KIND', 'CODE', 'RANK', 'OWNER', 'MEANING', 'WHAT TO DO'], codes.map((c) =>
        [c.kind, c.code, c.rank ?? '-', c.owner, c.meaning, c.remedy ?? '-']))
    }
    for (const failure of failuresOf(installation)) ctx.err.line(failure)
  }
} satisfies Verb

function codesOf (m: Manifest): Code[] {
  const owner = m.name
  return [
    ...Object.entries(m.errors ?? {}).map(([code, e]): Code =>
      ({ kind: 'error', code, owner, rank: String(e.status), meaning: e.message, remedy: e.remedy })),
    ...Object.entries(m.conflicts ?? {}).map(([code, c]): Code =>
      ({ kind: 'conflict', code, owner, rank: c.severity, meaning: c.meaning, remedy: c.remediation })),
    ...Object.entries(m.events ?? {}).map(([code, e]): Code =>
      ({ kind: 'event', code, owner, rank: e.plane, meaning: e.summary, remedy: null })),
    ...Object.entries(m.authorities ?? {}).map(([code, meaning]): Code =>
      ({ kind: 'authority', code, owner, rank: null, meaning, remedy: null }))
  ]
}
