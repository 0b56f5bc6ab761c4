// The microphone: hold a button to talk, and what was said becomes text.
import { signal } from '@preact/signals'
import { useEffect, useRef, useState } from 'preact/hooks'
import { call } from '../link.js'
import { Meter, Select } from '../ui/parts.js'
import { failed } from '../ui/toast.js'

/** The chosen device; '' is the browser's default. */
const device = signal('')
const devices = signal<readonly MediaDeviceInfo[]>([])

/** Why this page gets no microphone, or null. */
export const noMicrophone = (): string | null => window.isSecureContext
  ? null
  : 'Browsers give a page over plain HTTP from another machine no microphone. Set api.tls: self in the ' +
    'node\'s svc.yaml, restart it and open its https address.'

/** Opens the chosen microphone. @throws DOMException if there is none, or the person refuses */
export async function openMicrophone (): Promise<MediaStream> {
  const wanted = device.value === '' ? true : { deviceId: device.value }
  const stream = await navigator.mediaDevices.getUserMedia({ audio: wanted })
  // Devices have names only after permission.
  devices.value = (await navigator.mediaDevices.enumerateDevices())
    .filter(({ kind }) => kind === 'audioinput')
  return stream
}

export const closeMicrophone = (stream: MediaStream): void => {
  for (const track of stream.getTracks()) track.stop()
}

export function MicrophoneChoice () {
  if (devices.value.length < 2) return null
  const options = devices.value.map(({ deviceId, label }) => [deviceId, label] as const)
  return (
    <div class="pick">
      <Select
        label="Microphone" options={[['', 'The default'], ...options]} value={device.value}
        onText={(id) => { device.value = id }}
      />
    </div>
  )
}

/** The loudness of a stream, from 0 to 1. */
export function Level ({ stream }: { stream: MediaStream }) {
  const [level, setLevel] = useState(0)
  useEffect(() => {
    const context = new AudioContext()
    const analyser = context.createAnalyser()
    context.createMediaStreamSource(stream).connect(analyser)
    const samples = new Float32Array(analyser.fftSize)
    const timer = setInterval(() => {
      analyser.getFloatTimeDomainData(samples)
      const rms = Math.hypot(...samples) / Math.sqrt(samples.length)
      setLevel(Math.max(0, Math.min(1, 1 + Math.log10(rms + 1e-6) / 3)))
    }, 100)
    return () => { clearInterval(timer); void context.close() }
  }, [stream])
  return <Meter label="Level of the microphone" used={level} total={1} text="" />
}

/** Text of a sound in one of the route's formats. @throws ApiError */
export async function transcribe (sound: Blob, fields: Record<string, string>): Promise<string> {
  const form = new FormData()
  for (const [name, value] of Object.entries(fields)) if (value !== '') form.set(name, value)
  form.set('file', sound, sound instanceof File ? sound.name : 'speech.webm')
  return await (await call('/v1/audio/transcriptions', { method: 'POST', form })).text()
}

/** Records while it is pressed, by mouse, finger or the space bar. */
export function TalkButton ({ onSound }: { onSound: (sound: Blob) => Promise<void> }) {
  const [stream, setStream] = useState<MediaStream | null>(null)
  const [busy, setBusy] = useState(false)
  const held = useRef(false)
  const recorder = useRef<MediaRecorder | null>(null)
  const why = noMicrophone()
  const begin = async (): Promise<void> => {
    if (held.current || busy) return
    held.current = true
    const opened = await openMicrophone()
    // The button may have been let go while the browser asked for permission.
    if (!held.current) { closeMicrophone(opened); return }
    const made = recorder.current = new MediaRecorder(opened)
    const parts: Blob[] = []
    made.ondataavailable = ({ data }) => { parts.push(data) }
    made.onstop = () => {
      closeMicrophone(opened)
      setStream(null)
      setBusy(true)
      onSound(new Blob(parts, { type: made.mimeType })).catch(failed).finally(() => { setBusy(false) })
    }
    made.start()
    setStream(opened)
  }
  const end = (): void => {
    held.current = false
    if (recorder.current?.state === 'recording') recorder.current.stop()
  }
  const press = (): void => { begin().catch((error: unknown) => { held.current = false; failed(error) }) }
  useEffect(() => end, [])
  return (
    <>
      <button
        type="button" class="button" disabled={why !== null || busy} aria-busy={busy}
        aria-pressed={stream !== null}
        onPointerDown={press} onPointerUp={end} onPointerLeave={end}
        onKeyDown={({ key, repeat }) => { if (key === ' ' && !repeat) press() }}
        onKeyUp={({ key }) => { if (key === ' ') end() }}
      >
        {busy ? 'Writing it down…' : 'Hold to talk'}
      </button>
      {stream !== null && <Level stream={stream} />}
      {why !== null && <span class="hint">{why}</span>}
    </>
  )
}
