import { useState } from 'preact/hooks'
import { ask } from '../link.js'
import { Button, Field, Section } from '../ui/parts.js'
import { span } from '../ui/text.js'
import { ModelChoice, WithModels } from './catalogue.js'
import { plainLines } from './request.js'
import { SamplingFields } from './settings-fields.js'
import { RequestButton } from './shown-request.js'
import type { Sampling } from './sampling.js'

export function Completion ({ asked }: { asked: string | null }) {
  const [sampling, setSampling] = useState<Sampling>({ max_tokens: 64 })
  const [prompt, setPrompt] = useState('')
  const [shown, setShown] = useState<{ prompt: string, text: string, figures: string } | null>(null)
  const run = async (body: object): Promise<void> => {
    const begun = performance.now()
    const { choices, usage } = await ask('POST /v1/completions', { body })
    const figures = `${usage?.completion_tokens ?? 0} tokens in ${span(performance.now() - begun)}`
    setShown({ prompt, text: choices[0]?.text ?? '', figures })
  }
  return (
    <WithModels
      task="completions" asked={asked} none="There is no model in this cluster that goes on with a text."
    >
      {(models, model, choose) => (
        <Section title="Text">
          <div class="form">
            <ModelChoice models={models} value={model} onChoose={choose} />
            <Field label="Text to go on with" rows={4} value={prompt} onText={setPrompt} />
            <details class="group">
              <summary><h3>Settings</h3></summary>
              <SamplingFields sampling={sampling} onChange={setSampling} />
            </details>
            <div class="inline">
              <Button
                kind="main" disabled={prompt === ''}
                onClick={async () => { await run({ model, prompt, ...sampling }) }}
              >
                Go on with it
              </Button>
              <RequestButton
                path="/v1/completions" body={() => ({ model, prompt, ...sampling })} lines={plainLines}
              />
            </div>
            {shown !== null && (
              <>
                <p class="said answer"><span class="soft">{shown.prompt}</span>{shown.text}</p>
                <p class="hint">{shown.figures}</p>
              </>
            )}
          </div>
        </Section>
      )}
    </WithModels>
  )
}
