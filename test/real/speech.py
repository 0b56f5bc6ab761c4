"""The reference programs of speech.test.ts: a job on stdin as JSON, its result on stdout as JSON.

phonemes: samples of phoneme strings, as files of float32, and the symbol ids that they were made from.
texts: texts spoken by piper-tts with its own settings, as files of 16-bit samples.
words: what Whisper hears in WAV files.
"""
import json
import sys

import numpy as np


def piper(job):
    from piper import PiperVoice, SynthesisConfig

    voice = PiperVoice.load(job["model"])
    config = voice.config
    for phonemes, speed in job["runs"]:
        ids = voice.phonemes_to_ids(list(phonemes))
        length = config.length_scale / speed
        yield ids, voice.phoneme_ids_to_audio(ids, SynthesisConfig(length_scale=length))


def kokoro(job):
    from kokoro_onnx import Kokoro

    program = Kokoro(job["model"], job["voices"])
    for phonemes, speed in job["runs"]:
        ids = program.tokenizer.tokenize(phonemes)
        samples, _ = program.create(phonemes, job["voice"], speed=speed, is_phonemes=True, trim=False)
        yield ids, samples


def phonemes(job):
    runs = []
    for index, (ids, samples) in enumerate({"piper": piper, "kokoro": kokoro}[job["program"]](job)):
        path = f"{job['out']}/{job['program']}-{index}.f32"
        np.asarray(samples, dtype="<f4").ravel().tofile(path)
        runs.append({"path": path, "ids": [int(id) for id in ids]})
    return runs


def texts(job):
    from piper import PiperVoice

    voice = PiperVoice.load(job["model"])
    for index, text in enumerate(job["texts"]):
        with open(f"{job['out']}/{index}.pcm", "wb") as file:
            for chunk in voice.synthesize(text):
                file.write(chunk.audio_int16_bytes)


def words(job):
    from faster_whisper import WhisperModel

    model = WhisperModel(job["model"], device="cpu", compute_type="int8", cpu_threads=1, local_files_only=True)
    heard = []
    for path in job["files"]:
        segments, _ = model.transcribe(path, language="en", beam_size=1, temperature=0,
                                       condition_on_previous_text=False)
        heard.append(" ".join(segment.text for segment in segments))
    return heard


job = json.load(sys.stdin)
# Other programs' notes go to stderr.
answer, sys.stdout = sys.stdout, sys.stderr
result = {"phonemes": phonemes, "texts": texts, "words": words}[job["do"]](job)
json.dump(result, answer)
