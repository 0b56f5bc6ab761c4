import { Badge, Copy, Section, Snippet } from '../ui/parts.js'
import { nameOf } from '../known.js'
import { rowsOf } from './schema.js'
import type { Descriptor } from './target.js'

const MODES: Readonly<Record<string, string>> = {
  unary: 'one answer', server_streaming: 'streams its answer', client_streaming: 'takes a stream',
  bidirectional: 'streams both ways'
}

export const modeWords = (mode: string): string => MODES[mode] ?? mode

export function DescriptorView ({ descriptor }: { descriptor: Descriptor }) {
  const { id, version, title, description, annotations, revision } = descriptor
  const { io_mode: mode, node_id: node } = descriptor
  const schemas = [
    ['What it takes', descriptor.input_schema], ['Each chunk it takes', descriptor.input_chunk_schema],
    ['What it answers', descriptor.output_schema],
    ['Each chunk of its answer', descriptor.output_chunk_schema]
  ] as const
  return (
    <Section title={title}>
      <p>{description}</p>
      <dl class="facts">
        <div><dt>Id and version</dt><dd><Copy text={`${id}@${version}`} /></dd></div>
        <div><dt>Kind</dt><dd>{modeWords(mode)} (<code>{mode}</code>)</dd></div>
        <div><dt>Revision</dt><dd><Copy text={revision} /></dd></div>
        <div><dt>Node</dt><dd><Copy text={node} shown={nameOf(node)} /></dd></div>
        {Object.entries(annotations).map(([key, value]) => (
          <div key={key}><dt>{key}</dt><dd><Badge>{value}</Badge></dd></div>
        ))}
      </dl>
      {schemas.map(([words, schema]) => schema !== null && (
        <SchemaView key={words} words={words} schema={schema} />
      ))}
      <details>
        <summary>The descriptor as it came</summary>
        <Snippet label={`Descriptor of ${id}`} code={JSON.stringify(descriptor, null, 2)} />
      </details>
    </Section>
  )
}

function SchemaView ({ words, schema }: { words: string, schema: Record<string, unknown> }) {
  const rows = rowsOf(schema)
  return (
    <details class="group">
      <summary><h3>{words}</h3></summary>
      {rows.length > 0 && (
        <div class="table" role="region" aria-label={words} tabIndex={0}>
          <table>
            <thead><tr><th>Field</th><th>Type</th><th>Required</th><th>Constraint</th></tr></thead>
            <tbody>
              {rows.map(({ path, type, required, constraint, description }) => (
                <tr key={path}>
                  <td><code>{path}</code>{description !== '' && <p class="hint">{description}</p>}</td>
                  <td>{type}</td><td>{required ? 'yes' : 'no'}</td><td>{constraint}</td>
                </tr>
              ))}
            </tbody>
          </table>
        </div>
      )}
      <Snippet label={`${words}: JSON Schema`} code={JSON.stringify(schema, null, 2)} />
    </details>
  )
}
