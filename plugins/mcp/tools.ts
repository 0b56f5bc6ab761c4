import { rcompare } from 'semver'
import type { Tool } from '@modelcontextprotocol/server'
import type { JsonSchema, Manifest, ToolDecl } from '../../kernel/index.js'
import type { Listed } from '../capabilities/cli/invoke.js'

/** What stands behind the name of an MCP tool. */
export type Target =
  | { readonly kind: 'capability', readonly capability: Listed }
  | { readonly kind: 'tool', readonly tool: ToolDecl }

/** Clients take letters, digits, `_` and `-`, and 64 of them. */
const safe = (name: string): string => name.replace(/[^A-Za-z0-9_-]/g, '_').slice(0, 64)

/**
 * Every tool by its MCP name. Read-only tools keep theirs. The newest version of a capability has its id; the
 * others, and one whose name is taken, have the version behind it. Capabilities that need a stream of chunks
 * from the client are left out: a call of MCP has one payload.
 */
export function targets (
  capabilities: readonly Listed[], manifests: readonly Manifest[]
): ReadonlyMap<string, Target> {
  const found = new Map<string, Target>()
  for (const { tools = {} } of manifests) {
    for (const [name, tool] of Object.entries(tools)) found.set(name, { kind: 'tool', tool })
  }
  const served = capabilities.filter(({ input_chunk_schema: chunks }) => chunks === null)
    .sort((a, b) => a.id < b.id ? -1 : a.id > b.id ? 1 : rcompare(a.version, b.version))
  for (const capability of served) {
    const { id, version, revision } = capability
    const name = [id, `${id}_${version}`, `${id}_${revision}`].map(safe).find((free) => !found.has(free))
    if (name !== undefined) found.set(name, { kind: 'capability', capability })
  }
  return new Map([...found].sort(([a], [b]) => a < b ? -1 : 1))
}

/** A tool as MCP lists it. Nothing here changes the cluster. */
export function described (name: string, target: Target): Tool {
  const annotations = { readOnlyHint: true, openWorldHint: false }
  if (target.kind === 'tool') {
    const { summary, args } = target.tool
    return { name, description: summary, inputSchema: objectSchema(args), annotations }
  }
  const { id, version, title, description, input_schema: schema } = target.capability
  return {
    name, title, description: `${description} (the capability ${id}@${version})`,
    inputSchema: objectSchema(schema), annotations
  }
}

/** MCP wants the type to be said. */
const objectSchema = (schema: JsonSchema): Tool['inputSchema'] => ({ ...schema, type: 'object' })
