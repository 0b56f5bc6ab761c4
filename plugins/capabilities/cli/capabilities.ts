import { describe, fieldsOf, type Out, type Verb } from '../../../kernel/cli/index.js'
import { listingPath, parseId, pick, type Listed, type Listing } from './invoke.js'
import type { JsonSchema } from '../../../kernel/index.js'

export default {
  async run (ctx, [wanted], options) {
    const { client, notYet: again, out, retry, wait } = ctx
    const path = listingPath(options['node'] as string | undefined)
    const listing = await retry({ seconds: wait ?? 0, again }, () => client.json<Listing>(path))
    if (wanted !== undefined) {
      const found = await pick(ctx, listing, parseId(wanted))
      if (out.json) out.value(found)
      else show(out, found)
      return
    }
    if (out.json) return out.value(listing)
    out.table(['CAPABILITY', 'TITLE', 'MODE', 'REVISION', 'NODE'], listing.capabilities.map((c) =>
      [`${c.id}@${c.version}`, c.title, c.io_mode, c.revision, c.node_id]))
  }
} satisfies Verb

function show (out: Out, found: Listed): void {
  const { revision, node_id: node, ...descriptor } = found
  out.line(`${found.id}@${found.version}  ${found.title}\n${found.description}\n`)
  out.line(`mode ${found.io_mode}, revision ${revision}, node ${node}`)
  for (const [key, title] of schemas) {
    const schema = found[key]
    if (schema === null) continue
    out.line(`\n${title}${schema['additionalProperties'] === false ? ' (no other fields)' : ''}:`)
    out.table(['FIELD', 'REQUIRED', 'VALUE', 'MEANING'], fieldRows(schema))
  }
  out.line('\nDescriptor:')
  out.line(JSON.stringify(descriptor, null, 2))
}

const schemas = [
  ['input_schema', 'Input'], ['input_chunk_schema', 'Input chunk'],
  ['output_schema', 'Output'], ['output_chunk_schema', 'Output chunk']
] as const

function fieldRows (schema: JsonSchema): string[][] {
  const required = (schema['required'] ?? []) as string[]
  return Object.entries(fieldsOf(schema)).map(([name, field]) => [
    name, required.includes(name) ? 'yes' : '-', describe(field), String(field['description'] ?? '')
  ])
}
