// The waveform of the received part of a sound, with the playback position.
import { useEffect, useRef, useState } from 'preact/hooks'
import { colours } from '../ui/theme.js'
import { span } from '../ui/text.js'
import { barsIn, peaksOf } from './peaks.js'
import type { RefObject } from 'preact'

export interface Sound { samples: Float32Array, seconds: number }

export async function decode (bytes: ArrayBuffer): Promise<Sound | null> {
  try {
    // An OfflineAudioContext decodes without the user gesture that an AudioContext requires.
    const buffer = await new OfflineAudioContext(1, 1, 24_000).decodeAudioData(bytes)
    return { samples: buffer.getChannelData(0), seconds: buffer.duration }
  } catch {
    return null
  }
}

interface WaveProps { sound: Sound, audio: RefObject<HTMLAudioElement | null> }

export function Wave ({ sound, audio }: WaveProps) {
  const ref = useRef<HTMLCanvasElement>(null)
  const width = useWidth(ref)
  const at = usePlace(audio)
  useEffect(() => {
    if (ref.current !== null && width > 0) draw(ref.current, sound, at, width)
  }, [sound, at, width, colours.value])
  return (
    <canvas
      ref={ref} class="wave" role="img" aria-label={`Waveform of ${span(sound.seconds * 1000)} of sound`}
      onClick={({ offsetX }) => {
        if (audio.current !== null && width > 0) audio.current.currentTime = offsetX / width * sound.seconds
      }}
    />
  )
}

const HEIGHT = 96

function draw (canvas: HTMLCanvasElement, { samples, seconds }: Sound, at: number, width: number): void {
  const scale = devicePixelRatio
  canvas.width = Math.round(width * scale)
  canvas.height = Math.round(HEIGHT * scale)
  const context = canvas.getContext('2d')!
  const style = getComputedStyle(canvas)
  const [played, coming] = ['--accent', '--soft'].map((name) => style.getPropertyValue(name).trim())
  context.scale(scale, scale)
  const peaks = peaksOf(samples, barsIn(width))
  const step = width / peaks.length
  const over = seconds > 0 ? at / seconds * peaks.length : 0
  peaks.forEach((peak, i) => {
    const height = Math.max(1, peak * (HEIGHT - 4))
    context.fillStyle = (i < over ? played : coming) ?? ''
    context.fillRect(i * step, (HEIGHT - height) / 2, Math.max(1, step - 1), height)
  })
}

function useWidth (ref: RefObject<HTMLCanvasElement | null>): number {
  const [width, setWidth] = useState(0)
  useEffect(() => {
    const observer = new ResizeObserver(([entry]) => { setWidth(Math.floor(entry!.contentRect.width)) })
    observer.observe(ref.current!)
    return () => { observer.disconnect() }
  }, [])
  return width
}

/** Playback position in seconds, updated each frame, or a few times a second with reduced motion. */
function usePlace (audio: RefObject<HTMLAudioElement | null>): number {
  const [at, setAt] = useState(0)
  useEffect(() => {
    const element = audio.current
    if (element === null) return
    const still = matchMedia('(prefers-reduced-motion: reduce)')
    let frame = 0
    const look = (): void => {
      cancelAnimationFrame(frame)
      setAt(element.currentTime)
      if (!element.paused && !still.matches) frame = requestAnimationFrame(look)
    }
    const events = ['timeupdate', 'play', 'pause', 'seeked', 'emptied'] as const
    for (const event of events) element.addEventListener(event, look)
    return () => {
      cancelAnimationFrame(frame)
      for (const event of events) element.removeEventListener(event, look)
    }
  }, [])
  return at
}
