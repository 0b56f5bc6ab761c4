import { rcompare } from 'semver'
import type { Tool } from '@modelcontextprotocol/server'
import type { JsonSchema, Manifest, ToolDecl } from '../../kernel/index.js'
import type { Listed } from '../capabilities/cli/invoke.js'

/** What an MCP tool name stands for: a tool that inspects the cluster, or a capability. */
export type Target =
  | { readonly kind: 'capability', readonly capability: Listed }
  | { readonly kind: 'tool', readonly tool: ToolDecl }

/** Makes a valid tool name: clients accept letters, digits, `_` and `-`, at most 64 characters. */
const safe = (name: string): string => name.replace(/[^A-Za-z0-9_-]/g, '_').slice(0, 64)

/**
 * All tools by MCP name. Read-only tools keep their names. The newest version of a capability is named after
 * its id; other versions, and capabilities whose id is already taken, append the version. Capabilities with a
 * client stream are omitted, since an MCP call has only one payload.
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

/** MCP's hints by the annotations of a capability, whose values are 'true' or 'false'. */
const HINTS: Readonly<Record<string, string>> = {
  read_only: 'readOnlyHint', destructive: 'destructiveHint', idempotent: 'idempotentHint',
  open_world: 'openWorldHint'
}

/** A tool in MCP's format. Tools that inspect the cluster are read-only; a capability if it declares that. */
export function described (name: string, target: Target): Tool {
  if (target.kind === 'tool') {
    const { summary, args } = target.tool
    const annotations = { readOnlyHint: true, openWorldHint: false }
    return { name, description: summary, inputSchema: objectSchema(args), annotations }
  }
  const { id, version, title, description, input_schema: schema, annotations } = target.capability
  const hints = Object.entries(annotations).flatMap(([key, value]) =>
    Object.hasOwn(HINTS, key) ? [[HINTS[key], value === 'true']] : [])
  const output = resultSchema(target.capability)
  return {
    name, title, description: `${description} (the capability ${id}@${version})`,
    inputSchema: objectSchema(schema), ...output === undefined ? {} : { outputSchema: output },
    annotations: { readOnlyHint: false, ...Object.fromEntries(hints) as object }
  }
}

/** The schema of a structured result, which MCP requires to be an object; undefined for any other result. */
export const resultSchema = (
  { io_mode: mode, output_schema: schema }: Pick<Listed, 'io_mode' | 'output_schema'>
): Tool['outputSchema'] =>
  mode === 'unary' && schema?.['type'] === 'object' ? objectSchema(schema) : undefined

/** Adds `type: object`, which MCP requires. */
const objectSchema = (schema: JsonSchema): Tool['inputSchema'] => ({ ...schema, type: 'object' })
