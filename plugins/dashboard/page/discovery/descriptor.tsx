import { Badge, Copy, Facts, Section, Snippet } from '../ui/parts.js'
import { nameOf } from '../known.js'
import type { Descriptor } from './target.js'

const MODES = {
  unary: 'one answer', server_streaming: 'streams its answer', client_streaming: 'takes a stream',
  bidirectional: 'streams both ways'
}

export const modeWords = (mode: Descriptor['io_mode']): string => MODES[mode]

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
      <Facts
        list={[
          ['Id and version', <Copy key="id" text={`${id}@${version}`} />],
          ['Kind', <>{modeWords(mode)} (<code>{mode}</code>)</>],
          ['Revision', <Copy key="revision" text={revision} />],
          ['Node', <Copy key="node" text={node} shown={nameOf(node)} />],
          ...Object.entries(annotations).map(([key, value]) =>
            [key, <Badge key={key}>{value}</Badge>] as const)
        ]}
      />
      {schemas.map(([words, schema]) => schema !== null && (
        <details key={words} class="group">
          <summary><h3>{words}</h3></summary>
          <Snippet label={`${words}: JSON Schema`} code={JSON.stringify(schema, null, 2)} />
        </details>
      ))}
      <details>
        <summary>The descriptor as it came</summary>
        <Snippet label={`Descriptor of ${id}`} code={JSON.stringify(descriptor, null, 2)} />
      </details>
    </Section>
  )
}
