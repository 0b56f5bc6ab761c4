import { useState } from 'preact/hooks'
import { ask } from '../link.js'
import { Button, Field, Section } from '../ui/parts.js'
import { shortened } from '../ui/text.js'
import { ModelChoice, WithModels } from './catalogue.js'
import { plainLines } from './request.js'
import { RequestButton } from './shown-request.js'
import { likeness } from './likeness.js'

interface Vectors { texts: string[], vectors: number[][] }

export function Embedding ({ asked }: { asked: string | null }) {
  const [text, setText] = useState('A cat sleeps in the sun.\nA kitten naps outside.\nThe train was late.')
  const [result, setResult] = useState<Vectors | null>(null)
  const texts = text.split('\n').filter((line) => line.trim() !== '')
  const run = async (body: object): Promise<void> => {
    const data = (await ask('POST /v1/embeddings', { body })).data as { embedding: number[] }[]
    setResult({ texts, vectors: data.map(({ embedding }) => embedding) })
  }
  return (
    <WithModels
      task="embeddings" asked={asked} none="There is no model in this cluster that makes vectors of texts."
    >
      {(models, model, choose) => (
        <Section title="Vectors">
          <div class="form">
            <ModelChoice models={models} value={model} onChoose={choose} />
            <Field label="Texts, one on each line" rows={4} value={text} onText={setText} />
            <div class="inline">
              <Button
                kind="main" disabled={texts.length === 0} onClick={() => run({ model, input: texts })}
              >
                Compare them
              </Button>
              <RequestButton
                path="/v1/embeddings" body={() => ({ model, input: texts })} lines={plainLines}
              />
            </div>
            {result !== null && <Table {...result} />}
          </div>
        </Section>
      )}
    </WithModels>
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
