import { useState } from 'preact/hooks'
import { save } from '../happened/parts.js'
import { Button, Field, Section } from '../ui/parts.js'
import { ModelChoice, WithModels, type Model } from './catalogue.js'
import { MicrophoneChoice, TalkButton, transcribe } from './microphone.js'

export const Listening = ({ asked }: { asked: string | null }) => (
  <WithModels task="stt" asked={asked} none="There is no model for speech to text in this cluster.">
    {(models, id, choose) => (
      <Section title="Speech to text">
        <Recording key={id} models={models} id={id} onModel={choose} />
      </Section>
    )}
  </WithModels>
)

const FORMATS = [['text', 'Text', 'txt'], ['srt', 'SubRip', 'srt'], ['vtt', 'WebVTT', 'vtt']] as const

interface FormProps { models: Model[], id: string, onModel: (id: string) => void }

function Recording ({ models, id, onModel }: FormProps) {
  const [sound, setSound] = useState<Blob | null>(null)
  const [language, setLanguage] = useState('')
  const [text, setText] = useState<string | null>(null)
  const listen = async (blob: Blob | null): Promise<void> => {
    setSound(blob)
    setText(null)
    if (blob !== null) setText(await transcribe(blob, { model: id, language, response_format: 'text' }))
  }
  return (
    <div class="form">
      <div class="choices-row">
        <ModelChoice models={models} value={id} onChoose={onModel} />
        <div class="pick">
          <Field
            label="Language (found out if empty)" value={language} onText={setLanguage} placeholder="en"
          />
        </div>
        <MicrophoneChoice />
      </div>
      <Field
        label="Recording" type="file" value="" onText={() => {}}
        {...{ accept: 'audio/*,video/*' }}
        onChange={({ currentTarget }) => {
          setText(null)
          setSound((currentTarget as unknown as HTMLInputElement).files?.[0] ?? null)
        }}
      />
      <div class="inline">
        <Button kind="main" disabled={sound === null} onClick={async () => { await listen(sound) }}>
          Write it down
        </Button>
        <TalkButton onSound={listen} />
      </div>
      {text !== null && (
        <>
          <Field label="Text" rows={8} value={text.trim() === '' ? '(no speech)' : text} onText={setText} />
          <div class="inline">
            {FORMATS.map(([format, title, extension]) => (
              <Button
                key={format} onClick={async () => {
                  const words = await transcribe(sound!, { model: id, language, response_format: format })
                  save(new Blob([words], { type: 'text/plain' }), `transcript.${extension}`)
                }}
              >
                {title}
              </Button>
            ))}
          </div>
        </>
      )}
    </div>
  )
}
