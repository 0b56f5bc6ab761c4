import { lookedAt } from '../../../kernel/cli/index.js'
import type { DeclarationSet, Finding, Tool, ToolContext } from '../../../kernel/cli/index.js'

export const MODEL = 'acme/chat'
export const at = (minute: number): string => new Date(Date.UTC(2026, 0, 31, 8, minute)).toISOString()
export const event = (idx: number, kind: string, payload: object): object =>
  ({ idx, at: at(idx), origin: 'id-n1', event: { [kind]: payload } })
export const ours = { instanceId: 'i1', modelId: MODEL }

/** Replies of a fake node, by path without query; `downloads` is the downloads tool's result. */
export type Answers = Record<string, object | [status: number, reason: string, details?: object]>

export async function run<A> (tool: Tool<A>, args: A, answers: Answers): Promise<Finding> {
  const look = (async (path: string) => {
    const answer = answers[path.split('?')[0]!] ?? [404, 'not_found']
    if (path.startsWith('/state?')) return lookedAt(404, '{}')
    if (!Array.isArray(answer)) return lookedAt(200, JSON.stringify(answer))
    const [code, reason, details = {}] = answer as [number, string, object?]
    return lookedAt(code, JSON.stringify({ error: { code, reason, message: `${reason}.`, details } }))
  }) as ToolContext['look']
  const downloads = { load: async () => ({ default: { run: async () => answers['downloads'] } }) }
  const errors = { instance_lost: { remedy: 'Repeat the request.' } }
  const declared = { manifests: [{ errors, tools: 'downloads' in answers ? { downloads } : {} }] }
  return await tool.run(
    { look, nowMs: Date.parse(at(30)), declared: async () => declared as unknown as DeclarationSet }, args)
}

const GIB = 2 ** 30
export const refused = {
  error: 'n1: too little', reason: 'insufficient_memory', details: {
    nodes: [{ nodeId: 'id-n1', name: 'n1', backend: 'cpu', startLayer: 0, endLayer: 10, shareBytes: GIB,
      neededBytes: 2 * GIB, usableBytes: GIB }],
    suggestions: [{ kind: 'free', text: 'free 1.00 GiB of memory on n1' },
      { kind: 'stop', instanceId: 'i9', text: 'stop instance i9 (acme/big)' }]
  }
}
export const created = event(3, 'InstanceCreated', { ...ours, nodeIds: ['id-n2'] })
