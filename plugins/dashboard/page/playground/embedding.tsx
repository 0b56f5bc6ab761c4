import { useId, useState } from 'preact/hooks'
import { ask } from '../link.js'
import { linkTo } from '../route.js'
import { Button, Empty, Section, Trouble } from '../ui/parts.js'
import { ModelChoice, useModels } from './catalogue.js'
import { plainLines, shortened } from './request.js'
import { RequestButton } from './shown-request.js'
import { likeness } from './likeness.js'

interface Vectors { texts: string[], vectors: number[][] }

export function Embedding ({ asked }: { asked: string | null }) {
  const { models, error } = useModels('embeddings')
  const [picked, setPicked] = useState<string | null>(null)
  const [text, setText] = useState('A cat sleeps in the sun.\nA kitten naps outside.\nThe train was late.')
  const [result, setResult] = useState<Vectors | null>(null)
  const id = useId()
  if (error !== null && models === null) return <Trouble error={error} />
  if (models === null) return <p class="waiting" role="status">Asking for the models…</p>
  if (models.length === 0) {
    return (
      <Empty title="There is no model in this cluster that makes vectors of texts.">
        <a href={linkTo('models')}>Find one</a>
      </Empty>
    )
  }
  const model = picked ?? asked ?? models[0]!.id
  const texts = text.split('\n').filter((line) => line.trim() !== '')
  const body = () => ({ model, input: texts })
  const run = async (): Promise<void> => {
    const { data } = await ask<{ data: { embedding: number[] }[] }>('/v1/embeddings', { body: body() })
    setResult({ texts, vectors: data.map(({ embedding }) => embedding) })
  }
  return (
    <Section title="Vectors">
      <div class="form">
        <ModelChoice models={models} value={model} onChoose={setPicked} />
        <label for={id}>Texts, one on each line</label>
        <textarea
          id={id} rows={4} value={text} onInput={({ currentTarget }) => { setText(currentTarget.value) }}
        />
        <div class="inline">
          <Button kind="main" disabled={texts.length === 0} onClick={run}>Compare them</Button>
          <RequestButton path="/v1/embeddings" body={body} lines={plainLines} />
        </div>
        {result !== null && <Table {...result} />}
      </div>
    </Section>
  )
}

function Table ({ texts, vectors }: Vectors) {
  return (
    <>
      <p class="hint">
        {vectors[0]?.length ?? 0} numbers for each text. 1 is the same direction, 0 has nothing in common.
      </p>
      <div class="scroll-x" tabIndex={0} role="region" aria-label="How near the texts are">
        <table>
          <thead>
            <tr><th scope="col">Text</th>{texts.map((_, i) => <th key={i} scope="col">{i + 1}</th>)}</tr>
          </thead>
          <tbody>
            {texts.map((one, i) => (
              <tr key={i}>
                <th scope="row">{i + 1}. {shortened(one)}</th>
                {vectors.map((other, n) => <td key={n}>{likeness(vectors[i]!, other).toFixed(3)}</td>)}
              </tr>
            ))}
          </tbody>
        </table>
      </div>
    </>
  )
}
