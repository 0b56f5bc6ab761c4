import { useEffect, useRef, useState } from 'preact/hooks'
import { serverEvents } from '../api.js'
import { call } from '../link.js'
import { Button, Field, Section } from '../ui/parts.js'
import { span } from '../ui/text.js'
import { ModelChoice, WithModels } from './catalogue.js'
import { Incoming } from './incoming.js'
import { plainLines } from './request.js'
import { SamplingFields } from './settings-fields.js'
import { RequestButton } from './shown-request.js'
import type { Sampling } from './sampling.js'

export function Completion ({ asked }: { asked: string | null }) {
  const [sampling, setSampling] = useState<Sampling>({ max_tokens: 64 })
  const [prompt, setPrompt] = useState('')
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
            <Continuation
              prompt={prompt} body={() =>
                ({ model, prompt, ...sampling, stream: true, stream_options: { include_usage: true } })}
            />
          </div>
        </Section>
      )}
    </WithModels>
  )
}

interface Continued { prompt: string, text: string, figures: string }

function Continuation ({ body, prompt }: { body: () => Record<string, unknown>, prompt: string }) {
  const [shown, setShown] = useState<Continued | null>(null)
  const [open, setOpen] = useState(false)
  const controller = useRef<AbortController | null>(null)
  useEffect(() => () => { controller.current?.abort() }, [])
  const run = async (): Promise<void> => {
    const { signal } = controller.current = new AbortController()
    setOpen(true)
    try {
      await goOn(body(), signal, (text, figures) => { setShown({ prompt, text, figures }) })
    } catch (error) {
      if (!signal.aborted) throw error
    } finally {
      setOpen(false)
    }
  }
  return (
    <>
      <div class="inline">
        <Button kind="main" disabled={prompt === ''} onClick={run}>Go on with it</Button>
        {open && <Button onClick={() => { controller.current?.abort() }}>Stop</Button>}
        <RequestButton path="/v1/completions" body={body} lines={plainLines} />
      </div>
      {shown !== null && (
        <>
          <p class="said answer" aria-busy={open}>
            <span class="soft">{shown.prompt}</span>{shown.text}
          </p>
          <p class="hint">{shown.figures}</p>
        </>
      )}
    </>
  )
}

async function goOn (
  body: Record<string, unknown>, signal: AbortSignal, show: (text: string, figures: string) => void
): Promise<void> {
  const begun = performance.now()
  const response = await call('/v1/completions', { body, signal })
  const incoming = new Incoming()
  let frame: number | null = null
  const draw = (): void => {
    frame = null
    const { tokens, perSecond } = incoming
    const rate = perSecond === null ? '' : ` · ${perSecond.toFixed(0)} tokens/s`
    const spent = span(performance.now() - begun)
    show(incoming.content, tokens === null ? '' : `${tokens} tokens in ${spent}${rate}`)
  }
  for await (const event of serverEvents(response)) {
    if (incoming.take(event)) frame ??= requestAnimationFrame(draw)
  }
  if (frame !== null) cancelAnimationFrame(frame)
  draw()
  if (incoming.failure !== null) throw new Error(incoming.failure.message)
}
